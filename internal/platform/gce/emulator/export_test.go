package emulator

// Played are the ids of the methods that an emulator plays.
func (e *Emulator) Played() []string { return sortedKeys(e.handlers) }
