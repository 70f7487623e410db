"""One module per family of pages. Each has `ROUTES`, which `penstock.console.app` joins."""
