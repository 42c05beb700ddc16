package platform

import (
	"io"
	"net/http"
	"path/filepath"
)

// World is what a program provides to reach platforms: environment, folders and an HTTP client. The
// zero World reaches no platform, and is enough where only specs are read.
type World struct {
	// Env returns an environment variable, or "", as os.Getenv does; nil: no variable is set.
	Env func(string) string
	// Cache is a folder for data that can be fetched again; empty: no cache.
	Cache string
	// Bundle is the folder of files and images that machines fetch, if the program serves them;
	// empty: there is none.
	Bundle string
	// Program is the path of the kops binary, which a platform may start.
	Program string
	// Version is the version of kops, without a leading v.
	Version string
	// HTTP sends all requests; nil: each client has its own.
	HTTP *http.Client
	// Log receives messages of long-running work on this host; may be nil.
	Log io.Writer
}

// Getenv returns an environment variable, or "".
func (w World) Getenv(name string) string {
	if w.Env == nil {
		return ""
	}
	return w.Env(name)
}

// Absolute returns a folder as an absolute path, for processes with another working directory; ""
// stays "".
func Absolute(dir string) string {
	if dir == "" {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir // the working directory is gone: return the folder as it was given
}
