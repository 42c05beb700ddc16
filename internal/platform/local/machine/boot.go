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

// BootReport returns the machine's report on its boot, as JSON, or nil if there is
// none yet. It can be read even if the machine cannot be reached, or is dead.
func (h Host) BootReport(ctx context.Context, name string) ([]byte, error) {
	data, err := h.readLog(ctx, name, report.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotRunning) { // it has started or ended meanwhile
		return nil, fmt.Errorf("read the boot report of the machine %s: %w", name, err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	return data, nil
}

// readLog reads a file of a machine's disk: through the machine while it runs, because
// only its own mount shows the latest writes.
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
	root, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid), "root")) // no link in the machine can lead out of it
	if err != nil {
		return nil, err
	}
	defer root.Close() // only read
	return root.ReadFile(file[1:])
}
