package emulator

// Methods returns the IDs of the methods that an emulator implements.
func (e *Emulator) Methods() []string { return sortedKeys(e.handlers) }
