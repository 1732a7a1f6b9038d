"""The search: proposes smaller models and is never believed; `proof` decides."""
