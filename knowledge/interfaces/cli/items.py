"""knowledge item: its verbs, in the order in which help lists them."""

import typer

from knowledge.interfaces.cli import adding, changing, listing, reading, watching

app = typer.Typer(help="Add, list, read, index again and delete what a base holds.", no_args_is_help=True)
app.command("add", epilog=adding.EXAMPLE)(adding.add)
app.command("list", epilog=listing.LIST_EXAMPLE)(listing.list_items)
app.command("show", epilog=listing.SHOW_EXAMPLE)(listing.show)
app.command("reindex", epilog=changing.REINDEX_EXAMPLE)(changing.reindex)
app.command("delete", epilog=changing.DELETE_EXAMPLE)(changing.delete)
reading.register(app)
app.command("watch", epilog=watching.EXAMPLE)(watching.watch)
