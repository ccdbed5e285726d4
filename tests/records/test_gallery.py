"""The gallery shows every figure, with the command that makes it."""

from circuitax.records.gallery import GalleryItem, render_gallery


def test_page() -> None:
    items = [
        GalleryItem(
            "a", "first", "quick", 3.2, "cmd a", "a/1", ("a/1/x.png", "a/1/y.png"), "1 hold"
        ),
        GalleryItem("b", "second", "tiny", 1.0, "cmd b", "b/2", (), ""),
    ]
    page = render_gallery(items, ["c"], "make it")
    assert (
        page.index("## a") < page.index("a/1/x.png") < page.index("a/1/y.png") < page.index("## b")
    )
    assert "`cmd a` · quick scale · 3 s · [run](a/1) · claims: 1 hold" in page
    assert "No figure." in page.split("## b")[1]
    assert "Not run yet: c." in page
