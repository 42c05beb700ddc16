package host

import (
	"context"
	"os"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// Log is a file that a service logs to: it is created empty, readable only by
// root, and then left alone.
type Log struct {
	Path string `res:"forbid"`
}

// Logs is the kind of Log.
var Logs = resource.Kind[Log, *Machine]{
	Name: "host_log", API: "files", Direct: true,
	Key: func(l *Log) string { return l.Path }, List: listLogs,
	Create: func(_ context.Context, m *Machine, l *Log) error {
		return m.write(l.Path, 0o400, owner{}, strings.NewReader(""))
	},
	Delete: func(_ context.Context, m *Machine, l *Log) error { return m.remove(l.Path) },
}

func listLogs(_ context.Context, m *Machine, s resource.Scope) ([]*Log, error) {
	var out []*Log
	for _, path := range s.Names {
		_, err := os.Stat(m.path(path))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		out = append(out, &Log{Path: path})
	}
	return out, nil
}
