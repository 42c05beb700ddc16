package text_test

import (
	"bytes"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"kops.local/kops/internal/engine/render/text"
)

func TestControlCharactersAreShown(t *testing.T) {
	for in, want := range map[string]string{
		"a line\twith a tab\n":                      "a line\twith a tab\n",
		"net \x1b]0;title\x07\x1b[2J is ready":      `net \x1b]0;title\x07\x1b[2J is ready`,
		"over\rwritten\b\x7f":                       `over\rwritten\x08\x7f`,
		"from Windows\r\n":                          "from Windows\n",
		"\u009b2J as one character, \x9b as a byte": `\x9b2J as one character, \x9b as a byte`,
		"\u202eright to left":                       `\u202eright to left`,
		"größer … 日本":                               "größer … 日本",
	} {
		var b bytes.Buffer
		w := text.Plain(&b, time.Now).Stream(&b, true)
		for i := range len(in) { // byte by byte, as a buffer may split a character
			if n, err := w.Write([]byte(in[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if in == "from Windows\r\n" {
			want = `from Windows\r` + "\n" // its newline comes in another write
		}
		if b.String() != want {
			t.Errorf("%q is written as %q, not %q", in, b.String(), want)
		}
	}
}

// A row stays one row, whatever its cells contain, and a message stays one line.
func TestTextOfSeveralLinesIsJoined(t *testing.T) {
	const answer = "AccessDenied:\n\tno policy allows it\r\n"
	var b bytes.Buffer
	if err := text.Table(tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0), [][]string{{"NAME", "WHY", "AGE"}, {"a", answer, "1h"}}); err != nil {
		t.Fatal(err)
	}
	show := text.NewWaiting(text.Plain(&b, func() time.Time { return time.Time{} }))
	show.Update([]text.Reason{{Of: "Node a", Text: answer}})
	show.Note(answer)
	want := "NAME  WHY                                 AGE\na     AccessDenied:  no policy allows it  1h\n" +
		"[0s] waiting for Node a: AccessDenied:  no policy allows it\nAccessDenied:  no policy allows it\n"
	if b.String() != want {
		t.Errorf("written was\n%s\nwant\n%s", b.String(), want)
	}
}

// The display also contains others' texts.
func TestControlCharactersAreShownInWhatIsDrawn(t *testing.T) {
	const evil = "\x1b[2J\x1b[1;1HCluster is ready"
	var b bytes.Buffer
	on := text.Redrawn(&b, time.Now, func() int { return 80 })
	show := text.NewWaiting(on)
	show.Update([]text.Reason{{Of: "Node " + evil, Text: "is\n" + evil}})
	show.Note("note " + evil)
	show.Close()
	stages := text.NewStages(on)
	stages.Update("0 of 1 "+evil, nil, []text.Reason{{Of: evil, Text: evil}})
	stages.Close()
	p := paperPlan(t, paper{Name: "a", Policy: evil, Body: content("one\n" + evil)}, paper{Name: "a", Policy: "old", Body: content("one\ntwo\n")})
	if err := text.Plan(on.Stream(&b, true), p, text.Options{Color: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b[2J") || !strings.Contains(b.String(), `\x1b[2J`) {
		t.Errorf("written was %q", b.String())
	}
}

// Lines from any stream go above the redrawn display, and a prompt is left alone.
func TestAllStreamsShareTheScreen(t *testing.T) {
	var b bytes.Buffer
	at := &watch{time.Unix(100, 0)}
	on := text.Redrawn(&b, at.now, func() int { return 80 })
	out, errs := on.Stream(&b, true), on.Stream(&b, true)
	check := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(strings.Join(want, "\n"), screen(t, b.String())); d != "" {
			t.Errorf("the screen (-want +got):\n%s", d)
		}
	}
	write := func(w interface{ Write([]byte) (int, error) }, s string) {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	doing := text.NewDoing(on)
	doing.Set("looking")
	doing.Tick()
	check("looking … 0s")
	stages := text.NewStages(on)
	stages.Update("0 of 2", nil, nil)
	check("0 of 2, 0s")
	write(errs, "warning: a\n")
	check("warning: a", "0 of 2, 0s")
	another := text.NewDoing(on)
	another.Set("looking elsewhere")
	another.Tick()
	check("warning: a", "0 of 2, 0s")
	another.Close()
	check("warning: a", "0 of 2, 0s")
	waiting := text.NewWaiting(on)
	waiting.Update([]text.Reason{{Of: "the lease", Text: "is held"}})
	write(out, "a row\n")
	at.pass(time.Second)
	stages.Tick() // not while the other is shown
	check("warning: a", "a row", "waiting for 0s, 1 problem left", "  the lease: is held")
	waiting.Close()
	stages.Tick()
	check("warning: a", "a row", "0 of 2, 1s")
	write(errs, "Sure? (y/N) ")
	at.pass(time.Second)
	stages.Tick()
	check("warning: a", "a row", "Sure? (y/N) ")
	b.WriteString("y\n") // the terminal's echo of the keys
	on.Answered()
	at.pass(time.Second)
	stages.Tick()
	check("warning: a", "a row", "Sure? (y/N) y", "0 of 2, 3s")
	on.End()
	stages.Tick()
	doing.Tick()
	check("warning: a", "a row", "Sure? (y/N) y")
	if doing.Set("more") {
		t.Error("what was dismissed is drawn again")
	}
}
