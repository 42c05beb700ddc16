package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Only its serial console carries a report off a machine that nobody can reach, and a cloud
// keeps only the end of it: 64 KiB on AWS (API reference, GetConsoleOutput).
const (
	// mark starts a report in a console line, possibly after text that others have written.
	mark = "boot report 1 "
	// MaxLine is the longest line that Line writes, in bytes: a console holds about twenty
	// lines of this length, and one takes three seconds at 9600 baud.
	MaxLine = 3 << 10
	// largest is the maximum size of a report read from a console, in bytes. Root on a machine
	// can write anything there.
	largest = 64 << 10
)

// Line returns the report as a console line: a checksum, because the kernel's messages
// may interrupt it, and the compressed document. Texts are shortened if the line would
// be longer than MaxLine.
func Line(r *Report) string {
	for most := 512; ; most /= 2 {
		line, err := pack(shorten(r, most))
		if err != nil {
			return "" // neither a buffer nor plain fields cause errors
		}
		if len(line) <= MaxLine || most < 8 {
			return line
		}
	}
}

func pack(r *Report) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write the boot report: %w", err)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("pack the boot report: %w", err)
	}
	return fmt.Sprintf("%s%08x %s", mark, crc32.ChecksumIEEE(b.Bytes()), base64.RawStdEncoding.EncodeToString(b.Bytes())), nil
}

// maxParts limits the phases, warnings and certificates of a report that comes from a machine.
const maxParts = 24

// maxDown limits the parts that are down; each has a log.
const maxDown = 4

// shorten returns the report with each text shortened to most bytes; a line is made of several texts.
func shorten(r *Report, most int) *Report {
	short := *r
	for _, s := range []*string{&short.Cluster, &short.Group, &short.Node, &short.Version} {
		*s = truncate(*s, 253) // the longest DNS name
	}
	short.Phases = slices.Clone(r.Phases[:min(len(r.Phases), maxParts)])
	for i := range short.Phases {
		p := &short.Phases[i]
		p.Name, p.State, p.Error, p.Remedy = truncate(p.Name, 64), State(truncate(string(p.State), 64)), truncate(p.Error, most), truncate(p.Remedy, most)
	}
	short.Warnings = nil
	for _, w := range r.Warnings[:min(len(r.Warnings), maxParts, most/64)] {
		short.Warnings = append(short.Warnings, truncate(w, most))
	}
	short.Certificates = slices.Clone(r.Certificates[:min(len(r.Certificates), maxParts, most/16)])
	for i := range short.Certificates {
		c := &short.Certificates[i]
		c.File, c.Subject = truncate(c.File, 253), truncate(c.Subject, 253)
	}
	short.Down = slices.Clone(r.Down[:min(len(r.Down), maxDown)])
	for i := range short.Down {
		d := &short.Down[i]
		d.Name, d.Error = truncate(d.Name, 64), truncate(d.Error, most)
		d.Log = slices.Clone(d.Log[max(0, len(d.Log)-min(maxParts, most/64)):])
		for j := range d.Log {
			d.Log[j] = truncate(d.Log[j], most)
		}
	}
	return &short
}

// truncate returns at most most bytes of a text.
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const rest = "…"
	for most -= len(rest); most > 0 && !utf8.RuneStart(s[most]); most-- {
	}
	return s[:max(most, 0)] + rest
}

// IsLine reports whether a console line contains a report, or the remains of one.
func IsLine(line string) bool { return strings.Contains(line, mark) }

// Last returns the last complete report in a console's lines and the index of its
// line; nil if there is none.
func Last(lines []string) (r *Report, at int) {
	for i, line := range slices.Backward(lines) {
		if _, after, ok := strings.Cut(line, mark); ok {
			if r := unpack(after); r != nil {
				return r, i
			}
		}
	}
	return nil, -1
}

// unpack returns the report that packed encoded, or nil.
func unpack(text string) *Report {
	sum, data, _ := strings.Cut(strings.TrimSpace(text), " ")
	raw, err := base64.RawStdEncoding.DecodeString(data)
	if err != nil || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE(raw)) {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil
	}
	doc, err := io.ReadAll(io.LimitReader(z, largest+1))
	if err != nil || len(doc) > largest {
		return nil
	}
	r, err := Parse(doc)
	if err != nil {
		return nil
	}
	return r
}

// Sanitize returns a machine's report in a form that is safe to show: of limited size, and with
// texts passed through clean, because root on the machine controls them.
func Sanitize(r *Report, clean func(string) string) *Report {
	out := shorten(r, 4<<10)
	for _, s := range []*string{&out.Cluster, &out.Group, &out.Node, &out.Version} {
		*s = clean(*s)
	}
	for i := range out.Phases {
		p := &out.Phases[i]
		p.Name, p.State, p.Error, p.Remedy = clean(p.Name), State(clean(string(p.State))), clean(p.Error), clean(p.Remedy)
	}
	for i := range out.Warnings {
		out.Warnings[i] = clean(out.Warnings[i])
	}
	for i := range out.Certificates {
		c := &out.Certificates[i]
		c.File, c.Subject = clean(c.File), clean(c.Subject)
	}
	for i := range out.Down {
		d := &out.Down[i]
		d.Name, d.Error = clean(d.Name), clean(d.Error)
		for j := range d.Log {
			d.Log[j] = clean(d.Log[j])
		}
	}
	return out
}

// link matches a URL within a text.
var link = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)

// Public returns a text without the secrets that a URL in it may contain: user name and
// password, and the query, which may hold a signature.
func Public(text string) string {
	return link.ReplaceAllStringFunc(text, func(s string) string {
		head, _, query := strings.Cut(s, "?")
		if u, err := url.Parse(head); err == nil && u.User != nil {
			u.User = nil
			head = u.String()
		} else if scheme, rest, _ := strings.Cut(head, "://"); err != nil && strings.Contains(rest, "@") {
			head = scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
		}
		if query {
			head += "?…"
			if strings.HasSuffix(s, ":") { // the colon belongs to the sentence, not to the URL
				head += ":"
			}
		}
		return head
	})
}
