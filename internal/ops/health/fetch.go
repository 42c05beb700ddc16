package health

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What the boot script prints for each place from which it could not fetch nodeup, and at the end
// of each round of all places (internal/model/boot.sh.tmpl).
const (
	unfetched = "nodeup is not fetched after "
	fetched   = "nodeup is fetched after "
	roundEnd  = "No place gave a valid nodeup"
)

var unfetchedLine = regexp.MustCompile(unfetched + `(\d+) s: (\S+) (\S+): (\S+): ?(.*)$`)

// startTime is how long a control plane may take to start, in seconds: a machine that cannot reach
// one is assumed to be waiting for it until then.
const startTime = 300

// fetchFailure is one parsed line of a failed fetch.
type fetchFailure struct {
	after  int    // seconds since the script began
	link   string // store, control-plane or mirror
	cause  string
	place  string
	detail string
}

// remedies for more than one cause.
const (
	setClock    = "set the machine's clock, or let it reach a time server (NTP, UDP port 123); the machine retries by itself"
	writeAnew   = "run kops update cluster --yes, which writes nodeup again; the machine retries by itself"
	putThere    = "put the published file there, or correct spec.assets.fileRepository and run kops update cluster --yes"
	readable    = "let the role of the machine read the bucket: kops update cluster --yes writes its policy again; also check the policy of the bucket and its encryption key"
	seeListed   = "find out why the control plane is not up (kops doctor shows its machines first), and let this machine reach its port 3988"
	seeLog      = "make sure that the control plane can read its store; see the log of kops-controller"
	seeConsole  = "for details, see the console: kops doctor"
	ownMirror   = "correct the mirror, or spec.assets.fileRepository"
	newMachine  = "check that the address belongs to this cluster; if the certificate authority was replaced, run kops update cluster --yes and replace the machine"
	trustMirror = "use a certificate from an authority that the machine's image trusts"
)

// fetchCause is a cause of a failed fetch, and the remedy for each broken link.
type fetchCause struct {
	name string
	// message is the message; %s stands for the place, and the detail follows.
	message string
	remedy  map[string]string // "" stands for any other link
}

// fetchCauses returns the causes, the most telling first: among the places of one round, the first
// of them is reported.
func fetchCauses() []fetchCause {
	return []fetchCause{
		{"digest", "the file from %s is not the expected nodeup", map[string]string{"": writeAnew, "mirror": putThere}},
		{"clock", "its clock is wrong, and %s refuses it", map[string]string{"": setClock}},
		{"expired", "the certificate of %s is not valid by its clock", map[string]string{"": "if the clock is wrong, " + setClock + "; if it is right, renew the certificate"}},
		{"authority", "it does not trust the server that answers for %s", map[string]string{"": trustMirror, "control-plane": newMachine}},
		{"credentials", "it has no credentials to fetch nodeup with from %s", map[string]string{"": "give the machine its role: kops update cluster --yes; and let it reach its metadata service"}},
		{"refused", "it is refused by %s", map[string]string{"": readable, "mirror": ownMirror, "control-plane": seeLog}},
		{"server", "%s cannot serve nodeup now", map[string]string{"": "check the server; the machine retries by itself", "control-plane": seeLog}},
		{"absent", "nodeup is not at %s", map[string]string{"": writeAnew, "mirror": putThere}},
		{"other", "it cannot fetch nodeup from %s", map[string]string{"": seeConsole}},
		{"silent", "it gets no answer from %s", map[string]string{"": "check the routes, the firewall and the proxy between them", "control-plane": seeListed}},
		{"name", "it cannot resolve the name of %s", map[string]string{"": "check the network's DNS"}},
	}
}

// fromFetch explains why the boot script has not fetched nodeup, by the most telling cause in the
// last complete round of places and the current one.
func (s *Start) fromFetch(lines []string) {
	causes := fetchCauses()
	var worst *fetchFailure
	rank := func(u *fetchFailure) int {
		return slices.IndexFunc(causes, func(c fetchCause) bool { return c.name == u.cause })
	}
	ends := 0
	for _, l := range slices.Backward(lines) {
		if strings.Contains(l, roundEnd) {
			if ends++; ends == 2 {
				break
			}
		}
		u := parseFetchFailure(l)
		if u == nil || rank(u) < 0 || worst != nil && rank(u) >= rank(worst) {
			continue
		}
		worst = u
	}
	if worst == nil { // a truncated line
		s.Message, s.Remedy, s.Broken = "it cannot fetch nodeup", seeConsole, true
		return
	}
	absent := worst.cause == "silent" || worst.cause == "name"
	if worst.link == "control-plane" && absent && worst.after < startTime {
		s.Message = waitsForControlPlane
		return
	}
	c := causes[rank(worst)]
	s.Broken = true
	s.Message = strings.Replace(c.message, "%s", worst.where(), 1)
	if worst.detail != "" {
		s.Message += ": " + lastLine(worst.detail)
	}
	s.Remedy = c.remedy[worst.link]
	if s.Remedy == "" {
		s.Remedy = c.remedy[""]
	}
}

func parseFetchFailure(l string) *fetchFailure {
	m := unfetchedLine.FindStringSubmatch(l)
	if m == nil {
		return nil
	}
	after, err := strconv.Atoi(m[1])
	if err != nil {
		return nil
	}
	return &fetchFailure{after: after, link: m[2], cause: m[3], place: m[4], detail: m[5]}
}

// where describes the link.
func (u *fetchFailure) where() string {
	switch u.link {
	case "store":
		return "the cluster's store (" + u.place + ")"
	case "control-plane":
		if at, err := url.Parse(u.place); err == nil && at.Host != "" {
			return "kops-controller at " + at.Host
		}
	}
	return u.place
}
