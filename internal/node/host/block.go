package host

import (
	"context"
	"os"
	"strings"

	"kops.local/kops/internal/engine/resource"
)

// Block is a part of a text file whose other parts belong to others, such as the
// names that a cluster adds to /etc/hosts. It is enclosed in two lines that name
// it.
type Block struct {
	Path string `res:"forbid"`
	// Name appears in the lines "# Begin <Name> - do not edit" and "# End <Name>".
	Name  string   `res:"forbid"`
	Lines []string `res:",ordered"`
}

// Blocks is the kind of Block.
var Blocks = resource.Kind[Block, *Machine]{
	Name: "host_block", API: "files", Direct: true,
	Key: func(b *Block) string { return b.Path + "#" + b.Name }, List: listBlocks, Create: writeBlock,
	Update: []resource.Setter[Block, *Machine]{{Fields: []string{"Lines"},
		Set: func(ctx context.Context, m *Machine, _, want *Block) error { return writeBlock(ctx, m, want) }}},
	Delete: func(_ context.Context, m *Machine, b *Block) error {
		return m.editBlock(b.Path, b.Name, nil)
	},
}

func (b *Block) marks() (begin, end string) {
	return "# Begin " + b.Name + " - do not edit", "# End " + b.Name
}

func listBlocks(_ context.Context, m *Machine, s resource.Scope) ([]*Block, error) {
	var out []*Block
	for _, key := range s.Names {
		path, name, _ := strings.Cut(key, "#")
		text, err := os.ReadFile(m.path(path))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return nil, classifyFileError(err)
		}
		b := &Block{Path: path, Name: name}
		if _, inside, found := b.split(string(text)); found {
			b.Lines = inside
			out = append(out, b)
		}
	}
	return out, nil
}

// split splits a text into the lines around the block and the block's own. An
// unterminated block extends to the end of the text.
func (b *Block) split(text string) (around, inside []string, found bool) {
	begin, end := b.marks()
	within := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == begin:
			within, found = true, true
		case within && line == end:
			within = false
		case within:
			inside = append(inside, line)
		default:
			around = append(around, line)
		}
	}
	return around, inside, found
}

func writeBlock(_ context.Context, m *Machine, b *Block) error {
	begin, end := b.marks()
	return m.editBlock(b.Path, b.Name, append(append([]string{begin}, b.Lines...), end))
}

// editBlock replaces a block's lines, at the end of the file.
func (m *Machine) editBlock(path, name string, lines []string) error {
	m.edits.Lock()
	defer m.edits.Unlock()
	text, perm, o, err := m.current(path, 0o644)
	if err != nil {
		return err
	}
	around, _, found := (&Block{Name: name}).split(text)
	if !found && lines == nil {
		return nil
	}
	whole := strings.Join(append(around, lines...), "\n")
	if whole != "" {
		whole += "\n"
	}
	return m.write(path, perm, o, strings.NewReader(whole))
}
