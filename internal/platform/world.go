package platform

import (
	"io"
	"net/http"
	"path/filepath"
)

// World is what a program knows of its world, by which platforms are reached. The zero
// World reaches none, and serves where only specs are looked at.
type World struct {
	// Env returns an environment variable, or "", as os.Getenv does; nil: no variable is set.
	Env func(string) string
	// Cache is a folder for what can be fetched again; empty: no cache.
	Cache string
	// Bundle is the folder of files and images that machines fetch, where the program serves
	// them; empty: none.
	Bundle string
	// Program is the path of the program kops, which a platform may start.
	Program string
	// Version is the version of kops, without a leading v.
	Version string
	// HTTP sends all requests; nil: each client has its own.
	HTTP *http.Client
	// Log receives what long work on this host tells; may be nil.
	Log io.Writer
}

// Getenv returns an environment variable, or "".
func (w World) Getenv(name string) string {
	if w.Env == nil {
		return ""
	}
	return w.Env(name)
}

// Absolute is a folder as processes that run in another one must name it; "" stays so.
func Absolute(dir string) string {
	if dir == "" {
		return ""
	}
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir // the current folder is gone: the folder is told as it was named
}
