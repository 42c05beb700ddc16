package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// User is an account with a group of the same name and ID.
type User struct {
	Name string `res:"forbid"`
	// ID is the ID of the user and of the group.
	ID    int `res:"forbid"`
	Home  string
	Shell string
}

// Users is the kind of User.
var Users = resource.Kind[User, *Machine]{
	Name: "host_user", API: "files", Direct: true,
	Key: func(u *User) string { return u.Name }, List: listUsers, Create: addUser,
	Update: []resource.Setter[User, *Machine]{{Fields: []string{"Home", "Shell"},
		Set: func(ctx context.Context, m *Machine, _, want *User) error { return addUser(ctx, m, want) }}},
	Delete: func(_ context.Context, m *Machine, u *User) error {
		return errors.Join(m.account("/etc/passwd", u.Name, ""), m.account("/etc/group", u.Name, ""), m.account("/etc/shadow", u.Name, ""))
	},
}

// The fields of a line in /etc/passwd.
const (
	passwdID    = 2
	passwdHome  = 5
	passwdShell = 6
	passwdSize  = 7
)

func listUsers(_ context.Context, m *Machine, s resource.Scope) ([]*User, error) {
	text, err := os.ReadFile(m.path("/etc/passwd"))
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, classifyFileError(err)
	}
	var out []*User
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != passwdSize || !slices.Contains(s.Names, f[0]) {
			continue
		}
		id, err := strconv.Atoi(f[passwdID])
		if err != nil {
			return nil, fmt.Errorf("/etc/passwd: the ID of %s: %w", f[0], err)
		}
		out = append(out, &User{Name: f[0], ID: id, Home: f[passwdHome], Shell: f[passwdShell]})
	}
	return out, nil
}

// addUser writes an account that does not allow logins. /etc/passwd is written last, because
// it is what is observed.
func addUser(_ context.Context, m *Machine, u *User) error {
	if err := m.account("/etc/group", u.Name, fmt.Sprintf("%s:x:%d:", u.Name, u.ID)); err != nil {
		return err
	}
	if _, err := os.Stat(m.path("/etc/shadow")); err == nil {
		if err := m.account("/etc/shadow", u.Name, u.Name+":!:::::::"); err != nil {
			return err
		}
	}
	return m.account("/etc/passwd", u.Name, fmt.Sprintf("%s:x:%d:%d::%s:%s", u.Name, u.ID, u.ID, u.Home, u.Shell))
}

// account replaces the line of a name, or appends it; an empty line removes it.
func (m *Machine) account(path, name, line string) error {
	m.edits.Lock()
	defer m.edits.Unlock()
	text, perm, o, err := m.current(path, 0o644)
	if err != nil {
		return err
	}
	var lines []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSuffix(l, "\n"); !strings.HasPrefix(l, name+":") {
			lines = append(lines, l)
		}
	}
	if line != "" {
		if taken := accountWithSameID(lines, line); taken != "" && path == "/etc/passwd" {
			return fault.Wrap(fault.Permanent, fmt.Errorf("%s: the ID of %s belongs to %s", path, name, taken), "give that account another ID")
		}
		lines = append(lines, line)
	}
	whole := strings.Join(lines, "\n")
	if whole != "" {
		whole += "\n"
	}
	if whole == text {
		return nil
	}
	return m.write(path, perm, o, strings.NewReader(whole))
}

// accountWithSameID returns the name of the account in lines that has the same ID as line.
func accountWithSameID(lines []string, line string) string {
	number := strings.Split(line, ":")[passwdID]
	for _, l := range lines {
		if f := strings.Split(l, ":"); len(f) > passwdID && f[passwdID] == number {
			return f[0]
		}
	}
	return ""
}

// current reads a file before it is rewritten, with its mode and owner; perm is the mode of a new
// one.
func (m *Machine) current(path string, perm fs.FileMode) (string, fs.FileMode, owner, error) {
	info, err := os.Stat(m.path(path))
	if isMissing(err) {
		return "", perm, owner{}, nil
	}
	if err != nil {
		return "", 0, owner{}, classifyFileError(err)
	}
	text, err := os.ReadFile(m.path(path))
	return string(text), info.Mode().Perm(), m.ownerOf(path, info), classifyFileError(err)
}
