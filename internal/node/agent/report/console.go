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

// The one way by which a report leaves a machine that nobody can reach is its serial
// console, of which a cloud keeps the end: 64 KiB on AWS (API reference, GetConsoleOutput).
const (
	// mark begins a report in a line of a console, after any text that others write before it.
	mark = "boot report 1 "
	// MaxLine is the longest line that Line writes, in bytes: a console keeps some twenty of
	// the longest, and a line of 9600 baud takes three seconds for one.
	MaxLine = 3 << 10
	// largest is how many bytes a report read from a console may have. Root of a machine can write
	// anything there.
	largest = 64 << 10
)

// Line is the report as a line of a console: a checksum, as the kernel writes between,
// and the document, packed. Texts are cut where the line would be longer than MaxLine.
func Line(r *Report) string {
	for most := 512; ; most /= 2 {
		line, err := packed(cut(r, most))
		if err != nil {
			return "" // neither a buffer nor plain fields give an error
		}
		if len(line) <= MaxLine || most < 8 {
			return line
		}
	}
}

func packed(r *Report) (string, error) {
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

// mostParts bounds the phases, warnings and certificates of a report that comes from a machine.
const mostParts = 24

// mostDown bounds the parts that are down; each has a log.
const mostDown = 4

// cut returns the report with texts of at most so many bytes, of which several together make a line.
func cut(r *Report, most int) *Report {
	short := *r
	for _, s := range []*string{&short.Cluster, &short.Group, &short.Node, &short.Version} {
		*s = clipped(*s, 253) // the longest name of DNS
	}
	short.Phases = slices.Clone(r.Phases[:min(len(r.Phases), mostParts)])
	for i := range short.Phases {
		p := &short.Phases[i]
		p.Name, p.State, p.Error, p.Remedy = clipped(p.Name, 64), State(clipped(string(p.State), 64)), clipped(p.Error, most), clipped(p.Remedy, most)
	}
	short.Warnings = nil
	for _, w := range r.Warnings[:min(len(r.Warnings), mostParts, most/64)] {
		short.Warnings = append(short.Warnings, clipped(w, most))
	}
	short.Certificates = slices.Clone(r.Certificates[:min(len(r.Certificates), mostParts, most/16)])
	for i := range short.Certificates {
		c := &short.Certificates[i]
		c.File, c.Subject = clipped(c.File, 253), clipped(c.Subject, 253)
	}
	short.Down = slices.Clone(r.Down[:min(len(r.Down), mostDown)])
	for i := range short.Down {
		d := &short.Down[i]
		d.Name, d.Error = clipped(d.Name, 64), clipped(d.Error, most)
		d.Log = slices.Clone(d.Log[max(0, len(d.Log)-min(mostParts, most/64)):])
		for j := range d.Log {
			d.Log[j] = clipped(d.Log[j], most)
		}
	}
	return &short
}

// clipped is a text of at most so many bytes.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const rest = "…"
	for most -= len(rest); most > 0 && !utf8.RuneStart(s[most]); most-- {
	}
	return s[:max(most, 0)] + rest
}

// IsLine reports whether a line of a console holds a report, or what is left of one.
func IsLine(line string) bool { return strings.Contains(line, mark) }

// Last returns the last report that stands whole in the lines of a console, and in
// which of them; nil when none does.
func Last(lines []string) (r *Report, at int) {
	for i, line := range slices.Backward(lines) {
		if _, after, ok := strings.Cut(line, mark); ok {
			if r := unpacked(after); r != nil {
				return r, i
			}
		}
	}
	return nil, -1
}

// unpacked is what packed packed, or nil.
func unpacked(text string) *Report {
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

// Tame returns a machine's report in a form that may be shown: of bounded size, and with texts
// passed through clean, because root of the machine chooses them.
func Tame(r *Report, clean func(string) string) *Report {
	out := cut(r, 4<<10)
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

// link is a URL within a text.
var link = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)

// Public is a text without what a URL in it may hold of secrets: the name and password of
// a user, and the query, by which places are signed.
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
			if strings.HasSuffix(s, ":") { // the end of the URL in a sentence
				head += ":"
			}
		}
		return head
	})
}
