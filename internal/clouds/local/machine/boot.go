package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"kops.local/kops/internal/agent/report"
	"kops.local/kops/internal/clouds/local/site"
)

// BootReport returns the report that the machine keeps of its start, as JSON; it
// is nil while there is none. The machine's log folder lies on the host, so that
// the report can be read although the machine cannot be reached, or is dead.
func (h Host) BootReport(name string) ([]byte, error) {
	data, err := os.ReadFile(diskDir(h.Path(site.Machines, name), report.File))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the boot report of the machine %s: %w", name, err)
	}
	return data, nil
}
