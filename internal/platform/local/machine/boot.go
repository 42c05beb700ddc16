package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform/local/site"
)

// BootReport returns the report that the machine keeps of its start, as JSON; it
// is nil while there is none. It is read although the machine cannot be reached,
// or is dead.
func (h Host) BootReport(ctx context.Context, name string) ([]byte, error) {
	data, err := h.readLog(ctx, name, report.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotRunning) { // it has begun to run, or just ended
		return nil, fmt.Errorf("read the boot report of the machine %s: %w", name, err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	return data, nil
}

// readLog reads a file of a machine's disk: through the machine while it runs, because
// only its own mount shows what was written last.
func (h Host) readLog(ctx context.Context, name, file string) ([]byte, error) {
	dir := h.Path(site.Machines, name)
	disk := filepath.Join(dir, diskFile)
	if _, err := os.Stat(disk); err != nil { // a machine of an earlier kops has its disk in a folder
		return os.ReadFile(diskDir(dir, file))
	}
	runs, err := h.Group(name).Populated()
	if err != nil {
		return nil, err
	}
	if !runs {
		return readDisk(ctx, disk, file)
	}
	pid, err := h.init(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid), "root")) // no link of the machine leads out of it
	if err != nil {
		return nil, err
	}
	defer root.Close() // only read
	return root.ReadFile(file[1:])
}
