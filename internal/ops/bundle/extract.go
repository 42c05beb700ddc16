package bundle

import (
	"fmt"
	"io"

	"kops.local/kops/internal/engine/fault"
)

// Extract copies the file at a public URL, and fails at the end if its content has changed. If the
// bundle does not have the file, the error is of class fault.Gone.
func (b *Bundle) Extract(url string, to io.Writer) error {
	want, ok := b.FileHash(url)
	if !ok {
		return fault.Wrap(fault.Gone, fmt.Errorf("the bundle %s has no file %s", b.dir, url), Remedy)
	}
	f, err := b.open(url)
	if err != nil {
		return fmt.Errorf("open %s of the bundle %s: %w", url, b.dir, err)
	}
	defer f.Close() //nolint:errcheck // only read
	got, err := copySum(to, f)
	if err != nil {
		return fmt.Errorf("copy %s of the bundle %s: %w", url, b.dir, err)
	}
	if got != want {
		return fault.Wrap(fault.Permanent, fmt.Errorf("%s of the bundle %s has changed: its SHA-256 is %s, not %s", url, b.dir, got, want), Remedy)
	}
	return nil
}
