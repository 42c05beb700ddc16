package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/platform"
)

// Start is how far the start of a machine came.
type Start struct {
	// Message says it in a sentence; Remedy is what helps, where it is known.
	Message string
	Remedy  string
	// Broken says that something stands in the way, so that waiting alone may not help.
	Broken bool
	// Down says that it has started, and that a part of it has failed since.
	Down bool
	// Report is the machine's own, or nil.
	Report *report.Report
	// Console is what the machine wrote on its console, line by line.
	Console []string
}

// ReadStart finds out how far a machine came: by its boot report, which is a file of its own or
// stands on its console, or, while there is none, by what else the console says.
func ReadStart(r platform.BootRecord) Start {
	all := lastBoot(lines(r.Console))
	s := Start{Console: slices.DeleteFunc(slices.Clone(all), report.IsLine)}
	after := s.Console // what the console says since the report
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
	s.Report = report.Tame(s.Report, tame)
	s.fromReport()
	if crashed(after) {
		s.Down = false
		s.fromConsole()
	}
	return s
}

// lastBoot are the lines since the kernel started for the last time.
func lastBoot(all []string) []string {
	for i, l := range slices.Backward(all) {
		if strings.Contains(l, kernelStarts) {
			return all[i:]
		}
	}
	return all
}

// crashed reports whether the kernel crashed: after that nothing updates the earlier reports.
func crashed(all []string) bool {
	return slices.ContainsFunc(all, func(l string) bool { return strings.Contains(l, kernelCrashes) })
}

const (
	kernelStarts  = "Linux version"
	kernelCrashes = "Kernel panic"
	// waitsForControlPlane leaves out the error, which is another at each try.
	waitsForControlPlane = "its boot waits for the control plane, which does not answer yet"
)

// fromReport names what is down, the first broken phase, or the one under way.
func (s *Start) fromReport() {
	r := s.Report
	if r.Done && len(r.Down) > 0 {
		s.fromDown(r.Down)
		return
	}
	if p := r.Broken(); p != nil {
		s.Broken = true
		s.Message = fmt.Sprintf("its boot failed in the phase %s: %s", p.Name, line(p.Error)) // not the number of attempts: who waits is told what is new
		if p.Name == report.Renewal {
			s.Message = "it cannot renew its certificates: " + line(p.Error)
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

// sign is what a line of a console says of a start.
type sign struct {
	text    string // is in the line
	says    string
	remedy  string
	broken  bool
	verbose bool // the line itself says more
	fetch   bool // the lines of its kind say all
}

// signs are in the order in which a start comes to them; the furthest counts.
func signs() []sign {
	return []sign{
		{text: kernelStarts, says: "booting: the kernel has started, and the console shows nothing else yet"},
		{text: "Welcome to ", says: "booting: the system is starting, and the user data has not run yet"},
		{text: "Cloud-init v", says: "cloud-init is running, and nodeup has not started yet"},
		{text: "user data: running", says: "its user data is running, and nodeup has not started yet"},
		{text: "host0 has no address", says: "the machine got no address", broken: true, remedy: "check the host's bridge; kops doctor shows the console"},
		{text: "Could not resolve host", says: "it cannot resolve the host name of nodeup's URL", broken: true, verbose: true, remedy: "check the network's DNS"},
		{text: "curl: (", says: "it cannot fetch nodeup", broken: true, verbose: true, remedy: "check that machines can reach the address, and that the file exists"},
		{text: unfetched, says: "it cannot fetch nodeup", broken: true, fetch: true},
		{text: "There is no nodeup for the architecture", says: "there is no nodeup for its architecture", broken: true, verbose: true, remedy: "choose a machine type of amd64 or arm64"},
		{text: fetched, says: "it has fetched nodeup, which has not written a report yet"},
		{text: "user data: finished", says: "its user data has run, and nodeup has not written a report yet"},
		{text: "nodeup: ", says: "nodeup runs", verbose: true},
		{text: "failed with status", says: "its user data failed", broken: true, verbose: true, remedy: seeConsole},
		{text: "Failed to start cloud-final", says: "its user data failed", broken: true, remedy: seeConsole},
		{text: ": failed after ", says: "nodeup failed", broken: true, verbose: true},
		{text: kernelCrashes, says: "its kernel has crashed", broken: true, verbose: true, remedy: "delete the machine, so that its group makes another"},
	}
}

// fromConsole finds the furthest sign on the console; of equal ones the last line.
func (s *Start) fromConsole() {
	if len(s.Console) == 0 {
		s.Message = "it has no boot report, and its console is empty"
		return
	}
	all, best, at := signs(), -1, ""
	for _, l := range s.Console {
		for i := len(all) - 1; i >= max(best, 0); i-- {
			if !strings.Contains(l, all[i].text) || strings.Contains(l, unfetched) && !all[i].fetch { // a line of that kind has a URL, and a server's answer
				continue
			}
			best, at = i, l
			break
		}
	}
	if best < 0 {
		s.Message = "it has no boot report; its console ends with: " + line(s.Console[len(s.Console)-1])
		return
	}
	found := all[best]
	if found.fetch {
		s.fromFetch(s.Console)
		return
	}
	s.Message, s.Remedy, s.Broken = found.says, found.remedy, found.broken
	if found.verbose {
		s.Message += ": " + line(at)
	}
}

// lines are the lines of a console that say something.
func lines(text []byte) []string {
	var out []string
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimSpace(plain(l)); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// tame is a text of a machine, of any number of lines, as a terminal may show it.
func tame(text string) string {
	out := strings.Split(text, "\n")
	for i := range out {
		out[i] = plain(out[i])
	}
	return strings.Join(out, "\n")
}

// plain takes the commands for terminals out of a line, such as colours, and
// what else cannot be printed.
func plain(l string) string {
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
