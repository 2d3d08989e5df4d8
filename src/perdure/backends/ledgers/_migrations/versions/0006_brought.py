"""A message that waits to be read keeps what its call brought for its facts. Independent of today's tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty: what was brought for messages that already wait is not known any more."""
    op.add_column("episodes", sa.Column("brought", sa.Text()))


def downgrade() -> None:
    op.drop_column("episodes", "brought")
