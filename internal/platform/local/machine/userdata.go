package machine

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"path"
	"strings"
)

// Script is one part of user data.
type Script struct{ Name, Text string }

// Scripts splits user data: a script, which begins with "#!", is returned as it is; a
// multipart MIME message contains one in each part. Parts of other types, which
// cloud-init would process, are rejected. Empty user data contains none.
func Scripts(userData string) ([]Script, error) {
	switch {
	case strings.TrimSpace(userData) == "":
		return nil, nil
	case strings.HasPrefix(userData, "#!"):
		return []Script{{"user-data", userData}}, nil
	}
	m, err := mail.ReadMessage(strings.NewReader(userData))
	if err != nil {
		return nil, errors.New("user data is neither a script, which begins with #!, nor a MIME message")
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return nil, fmt.Errorf("user data is a MIME message of type %q, but must be a multipart message", m.Header.Get("Content-Type"))
	}
	var out []Script
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the parts of the user data: %w", err)
		}
		s, err := part(p, len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
}

func part(p *multipart.Part, n int) (Script, error) {
	name := p.FileName() // the library returns only the base name
	if name == "" {
		name = fmt.Sprintf("part-%d", n)
	}
	if kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type")); err != nil || kind != "text/x-shellscript" {
		return Script{}, fmt.Errorf("the part %s of the user data is of type %q; machines of the local cloud run scripts (text/x-shellscript) only", name, p.Header.Get("Content-Type"))
	}
	var body io.Reader = p
	if strings.EqualFold(p.Header.Get("Content-Transfer-Encoding"), "base64") {
		body = base64.NewDecoder(base64.StdEncoding, p)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return Script{}, fmt.Errorf("read the part %s of the user data: %w", name, err)
	}
	return Script{path.Base(name), string(text)}, nil
}
