"""S0 Example 26 and Figure 1: five features in two neurons, and what they cannot carry."""
