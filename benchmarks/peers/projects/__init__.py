"""Projects that use published packages, as their documentation has it; run by Pythons that have nothing of ours."""
