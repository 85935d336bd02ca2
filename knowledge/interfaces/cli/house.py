"""knowledge broker | config | db upgrade | model list: what the person who runs the house types."""

import typer

from knowledge.interfaces.cli.application import application
from knowledge.interfaces.cli.exits import ExitCode
from knowledge.interfaces.cli.options import Debug, Json, example
from knowledge.interfaces.cli.output import Output
from knowledge.interfaces.cli.shapes import list_object, model_object, setting_object

database = typer.Typer(help="The catalogue's tables.", no_args_is_help=True)
models = typer.Typer(help="The declared models.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.command("broker", epilog=example("knowledge broker"))(broker)
    app.command("config", epilog=example("knowledge config"))(config)
    app.add_typer(database, name="db")
    app.add_typer(models, name="model")


def broker(json: Json = False, debug: Debug = False) -> ExitCode:
    """Run the embedded broker in the foreground. It runs until it is told to stop; `make up` does this for you."""
    code = application().run_broker()
    Output(as_json=json).answer({"exit_code": code}, lambda out: None)
    return ExitCode.OK if code == 0 else ExitCode.FAILED


def config(json: Json = False, debug: Debug = False) -> ExitCode:
    """Show every setting as it is in effect. Says where each comes from; secrets are masked."""
    settings = application().describe_settings()

    def people(out: Output) -> None:
        for setting in settings:
            out.styled(f"{setting.variable} = {setting.value}  ({setting.origin})", "bold")
            out.styled(setting.description, "", indent=4)

    Output(as_json=json).answer(list_object("settings", [setting_object(setting) for setting in settings]), people)
    return ExitCode.OK


@database.command("upgrade", epilog=example("knowledge db upgrade"))
def upgrade(json: Json = False, debug: Debug = False) -> ExitCode:
    """Create the catalogue's tables, or bring them to this version."""
    done = application().upgrade_database()
    Output(as_json=json).answer({"result": done}, lambda out: out.line(done))
    return ExitCode.OK


@models.command("list", epilog=example("knowledge model list"))
def list_models(json: Json = False, debug: Debug = False) -> ExitCode:
    """List the models that bases can use; * marks the default."""
    app = application()
    declared, default = app.list_models(), app.default_embedder()

    def people(out: Output) -> None:
        rows = [
            (
                f"{spec.id}{' *' if spec.id == default else ''}",
                spec.kind,
                str(spec.dimensions),
                ",".join(spec.languages) or "any",
                str(spec.max_input_tokens),
                "yes" if spec.billed else "no",
                spec.endpoint or "this machine",
            )
            for spec in declared
        ]
        out.table(("ID", "KIND", "DIMENSIONS", "LANGUAGES", "INPUT TOKENS", "BILLED", "WHERE"), rows)

    wire = list_object("models", [model_object(spec, is_default=spec.id == default) for spec in declared])
    output = Output(as_json=json)
    output.answer(wire, people)
    if not declared:
        output.hint("no models are declared: bases are searched by their words only")
    return ExitCode.OK
