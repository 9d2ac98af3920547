"""What paid services cost, and a budget that no call may exceed."""
