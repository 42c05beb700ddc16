package text

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"kops.local/kops/internal/engine/escape"
)

// Stream returns a writer of text to w, synchronized with everything that the screen draws. Text
// may come from others, such as machines, so control characters are escaped as \x1b and have no
// effect; only this package draws. here means that w writes to the screen's terminal.
func (s *Screen) Stream(w io.Writer, here bool) io.Writer {
	return &stream{Writer: w, screen: s, here: here}
}

// Exact returns the writer below a stream, for documents whose control characters package escape has
// escaped, and for programs that draw on the terminal themselves. The display is cleared first.
func Exact(w io.Writer) io.Writer {
	s, ok := w.(*stream)
	if !ok {
		return w
	}
	if s.here {
		s.screen.mu.Lock()
		defer s.screen.mu.Unlock()
		_ = s.screen.keep(io.Discard, "")
	}
	return s.Writer
}

type stream struct {
	io.Writer
	screen *Screen
	here   bool
	part   []byte // the beginning of a character whose rest was not written yet
}

// Write implements io.Writer.
func (s *stream) Write(data []byte) (int, error) { return s.write(data, printable) }

// write writes data converted by show. A character that is split between two writes is shown whole.
func (s *stream) write(data []byte, show func(string) string) (int, error) {
	s.screen.mu.Lock()
	defer s.screen.mu.Unlock()
	text := string(s.part) + string(data)
	whole := len(text) - partial(text)
	s.part = []byte(text[whole:])
	if text = show(text[:whole]); s.here {
		return len(data), s.screen.keep(s.Writer, text)
	}
	_, err := io.WriteString(s.Writer, text)
	return len(data), err
}

// colored is a stream for text whose printer escapes control characters itself.
type colored struct{ *stream }

// Write implements io.Writer.
func (c colored) Write(data []byte) (int, error) {
	return c.write(data, func(s string) string { return s })
}

// unescaped returns the writer for a printer that escapes control characters itself.
func unescaped(w io.Writer) io.Writer {
	if s, ok := w.(*stream); ok {
		return colored{s}
	}
	return w
}

// partial returns how many bytes at the end of a text are the beginning of a character.
func partial(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// printable escapes the control characters of a text, except newlines and tabs, and invalid bytes,
// in Go's notation: \x1b.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if utf8.ValidString(text) && !strings.ContainsFunc(text, escape.IsHidden) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == '\r':
			out.WriteString(`\r`)
		case escape.IsHidden(r) && r > unicode.MaxLatin1:
			fmt.Fprintf(&out, `\u%04x`, r)
		case escape.IsHidden(r):
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			out.WriteRune(r)
		}
		text = text[n:]
	}
	return out.String()
}

// oneLine joins the lines of a text, for a cell of a table or a line of a display.
func oneLine(text string) string {
	return printable(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ").Replace(strings.TrimRight(text, "\r\n")))
}

// Table writes rows in columns. Every row takes one line, whatever its cells contain.
func Table(w *tabwriter.Writer, rows [][]string) error {
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return w.Flush()
}
