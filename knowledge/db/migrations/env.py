"""Alembic's entry: runs the versions on the connection that `knowledge.db.schema` hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True, transactional_ddl=True)
context.run_migrations()
