package rehearse

import (
	"io"
	"os"
	"path/filepath"

	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/plays"
	"kops.local/kops/internal/platform/rehearsal"
)

// OS returns the system of this process. The folder of the bundle is in KOPS_BUNDLE, which kops
// sets.
func OS(version string) System {
	w := platform.World{Bundle: platform.Absolute(os.Getenv("KOPS_BUNDLE"))}
	if dir, err := os.UserCacheDir(); err == nil {
		w.Cache = platform.Absolute(filepath.Join(dir, "kops"))
	}
	return System{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ(), Version: version, Platforms: plays.All(),
		Opener: func(log io.Writer) rehearsal.Opener {
			w.Log = log
			return plays.Stage(w)
		}}
}
