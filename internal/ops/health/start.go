package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform"
)

// Start is how far a machine's start has come.
type Start struct {
	// Message is a sentence that describes it; Remedy is what helps, if known.
	Message string
	Remedy  string
	// Broken means that there is an obstacle, so that waiting alone may not help.
	Broken bool
	// Down means that the machine has started, and a part of it has failed since.
	Down bool
	// Report is the machine's own, or nil.
	Report *report.Report
	// Console is the machine's console output, line by line.
	Console []string
}

// ReadStart finds out how far a machine's start has come: from its boot report, which is a file of
// its own or part of the console output, or, as long as there is none, from the rest of the console
// output.
func ReadStart(r platform.BootRecord) Start {
	all := lastBoot(lines(r.Console))
	s := Start{Console: slices.DeleteFunc(slices.Clone(all), report.IsLine)}
	after := s.Console // the console output since the report
	if len(r.Report) > 0 {
		rep, err := report.Parse(r.Report)
		if err != nil {
			s.Message, s.Broken = err.Error(), true
			return s
		}
		s.Report = rep
	} else if rep, at := report.Last(all); rep != nil {
		s.Report, after = rep, all[at:]
	}
	if s.Report == nil {
		s.fromConsole()
		return s
	}
	s.Report = report.Sanitize(s.Report, sanitize)
	s.fromReport()
	if hasCrashed(after) {
		s.Down = false
		s.fromConsole()
	}
	return s
}

// Unrecorded returns the start of a machine on a platform, given its title, that has no record of it. The
// machine itself has its report, and the output of its boot script where its image puts it.
func Unrecorded(title string) Start {
	return Start{Message: title + " does not show what the machine reports about its boot",
		Remedy: "log in to the machine: its boot report is in " + report.File + ", and the output of its boot script in /var/log/cloud-init-output.log"}
}

// lastBoot returns the lines since the kernel last started.
func lastBoot(all []string) []string {
	for i, l := range slices.Backward(all) {
		if strings.Contains(l, kernelStarts) {
			return all[i:]
		}
	}
	return all
}

// hasCrashed reports whether the kernel crashed: nothing updates earlier reports after that.
func hasCrashed(all []string) bool {
	return slices.ContainsFunc(all, func(l string) bool { return strings.Contains(l, kernelCrashes) })
}

const (
	kernelStarts  = "Linux version"
	kernelCrashes = "Kernel panic"
	// waitsForControlPlane leaves out the error, which differs at each attempt.
	waitsForControlPlane = "its boot waits for the control plane, which does not answer yet"
)

// fromReport names the parts that are down, the first broken phase, or the current one.
func (s *Start) fromReport() {
	r := s.Report
	if r.Done && len(r.Down) > 0 {
		s.fromDown(r.Down)
		return
	}
	if p := r.Broken(); p != nil {
		s.Broken = true
		s.Message = fmt.Sprintf("its boot failed in the phase %s: %s", p.Name, lastLine(p.Error)) // not the number of attempts: a waiting user sees each new message
		if p.Name == report.Renewal {
			s.Message = "it cannot renew its certificates: " + lastLine(p.Error)
		}
		s.Remedy = p.Remedy
		return
	}
	if r.Done {
		s.Message = "it has booted, but its kubelet has not registered"
		s.Remedy = "the machine restarts its kubelet within two minutes; if that does not help, see: journalctl -u kubelet on the machine"
		return
	}
	i := slices.IndexFunc(r.Phases, func(p report.Phase) bool { return p.State == report.Running })
	if i < 0 {
		s.Message = "its boot has begun"
		return
	}
	if r.Phases[i].Waiting {
		s.Message = waitsForControlPlane
		return
	}
	s.Message = fmt.Sprintf("its boot has been in the phase %s since %s", r.Phases[i].Name, r.Phases[i].Started.UTC().Format(time.RFC3339))
}

// sign is a kind of console line, and what it says about a start.
type sign struct {
	text    string // part of the line
	message string
	remedy  string
	broken  bool
	verbose bool // the line itself adds information
	fetch   bool // the message comes from all lines of its kind
}

// signs returns the signs in the order in which a start reaches them; the last one found counts.
func signs() []sign {
	return []sign{
		{text: kernelStarts, message: "booting: the kernel has started, and the console shows nothing else yet"},
		{text: "Welcome to ", message: "booting: the system is starting, and the user data has not run yet"},
		{text: "Cloud-init v", message: "cloud-init is running, and nodeup has not started yet"},
		{text: "user data: running", message: "its user data is running, and nodeup has not started yet"},
		{text: "host0 has no address", message: "the machine got no address", broken: true, remedy: "check the host's bridge; kops doctor shows the console"},
		{text: "Could not resolve host", message: "it cannot resolve the host name of nodeup's URL", broken: true, verbose: true, remedy: "check the network's DNS"},
		{text: "curl: (", message: "it cannot fetch nodeup", broken: true, verbose: true, remedy: "check that machines can reach the address, and that the file exists"},
		{text: unfetched, message: "it cannot fetch nodeup", broken: true, fetch: true},
		{text: "There is no nodeup for the architecture", message: "there is no nodeup for its architecture", broken: true, verbose: true, remedy: "choose a machine type of amd64 or arm64"},
		{text: fetched, message: "it has fetched nodeup, which has not written a report yet"},
		{text: "user data: finished", message: "its user data has run, and nodeup has not written a report yet"},
		{text: "nodeup: ", message: "nodeup runs", verbose: true},
		{text: "failed with status", message: "its user data failed", broken: true, verbose: true, remedy: seeConsole},
		{text: "Failed to start cloud-final", message: "its user data failed", broken: true, remedy: seeConsole},
		{text: ": failed after ", message: "nodeup failed", broken: true, verbose: true},
		{text: kernelCrashes, message: "its kernel has crashed", broken: true, verbose: true, remedy: "delete the machine, so that its group creates another"},
	}
}

// fromConsole finds the furthest sign on the console; of lines with the same sign, the last.
func (s *Start) fromConsole() {
	if len(s.Console) == 0 {
		s.Message = "it has no boot report, and its console is empty"
		return
	}
	all, best, at := signs(), -1, ""
	for _, l := range s.Console {
		for i := len(all) - 1; i >= max(best, 0); i-- {
			if !strings.Contains(l, all[i].text) || strings.Contains(l, unfetched) && !all[i].fetch { // a line of that kind contains a URL, and a server's response
				continue
			}
			best, at = i, l
			break
		}
	}
	if best < 0 {
		s.Message = "it has no boot report; its console ends with: " + lastLine(s.Console[len(s.Console)-1])
		return
	}
	found := all[best]
	if found.fetch {
		s.fromFetch(s.Console)
		return
	}
	s.Message, s.Remedy, s.Broken = found.message, found.remedy, found.broken
	if found.verbose {
		s.Message += ": " + lastLine(at)
	}
}

// lines returns the non-blank lines of a console.
func lines(text []byte) []string {
	var out []string
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSpace(stripEscapes(l)); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// sanitize makes a machine's text, of any number of lines, safe to show on a terminal.
func sanitize(text string) string {
	out := strings.Split(text, "\n")
	for i := range out {
		out[i] = stripEscapes(out[i])
	}
	return strings.Join(out, "\n")
}

// stripEscapes removes terminal escape sequences, such as colours, and other unprintable characters
// from a line.
func stripEscapes(l string) string {
	var b strings.Builder
	for i := 0; i < len(l); i++ {
		switch c := l[i]; {
		case c == 0x1b && i+1 < len(l) && l[i+1] == '[':
			for i += 2; i < len(l) && (l[i] < 0x40 || l[i] > 0x7e); i++ {
			}
		case c == '\t', c >= 0x20 && c != 0x7f:
			b.WriteByte(c)
		}
	}
	return strings.ToValidUTF8(b.String(), "")
}
