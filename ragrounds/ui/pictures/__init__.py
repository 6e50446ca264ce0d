"""Pictures of data as SVG and in a terminal; the cost–accuracy plot first."""
