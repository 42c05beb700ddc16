package managedfile

import (
	"context"
	"fmt"
	"strings"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Program is a file of kops' own programs in the cluster's folder. Its key contains its digest, so
// that it either exists or not, and never changes.
type Program struct {
	Key string `res:"forbid"`
	// File is its entry in an archive's index.
	File programs.File `res:"writeonly"`
}

// Programs is the client of the kind of Program.
type Programs struct {
	// Base is the cluster's folder.
	Base Area
	// Read returns a file of the archive; nil if there is no archive.
	Read func(programs.File) ([]byte, error)
}

// OwnProgram is the kind of Program. The programs with which running machines were started are kept
// until an update may delete unwanted objects.
var OwnProgram = resource.Kind[Program, Programs]{
	Name: "program", API: "store", Direct: true, Tasks: []string{"ManagedFile"},
	Key: func(p *Program) string { return p.Key },
	List: func(ctx context.Context, c Programs, _ resource.Scope) ([]*Program, error) {
		if c.Base.List == nil {
			return nil, nil
		}
		all, err := c.Base.List(ctx)
		if err != nil {
			return nil, err
		}
		var out []*Program
		for _, i := range all {
			if strings.HasPrefix(i.Key, programs.Folder) {
				out = append(out, &Program{Key: i.Key})
			}
		}
		return out, nil
	},
	Create: func(ctx context.Context, c Programs, p *Program) error {
		if c.Read == nil {
			return fault.New(fault.Permanent, "the archive with %s no longer exists", p.File.Path)
		}
		data, err := c.Read(p.File)
		if err != nil {
			return err
		}
		if err := c.Base.Write(ctx, p.Key, data, Options{}); err != nil {
			return fmt.Errorf("write %s: %w", p.Key, err)
		}
		return nil
	},
	Delete: func(ctx context.Context, c Programs, p *Program) error { return c.Base.Remove(ctx, p.Key) },
}

// ProgramNode declares a file of the archive.
func ProgramNode(f programs.File) resource.Node {
	return OwnProgram.New(f.Path, Program{Key: f.Key(), File: f})
}
