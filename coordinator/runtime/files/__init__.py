"""The life of committed files after their last batch is gone."""
