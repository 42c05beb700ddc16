package boot

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/layout"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/test/sandbox"
)

// attack is one fault in the path by which a machine gets its programs and
// its configuration.
type attack struct {
	name   string
	role   api.InstanceGroupRole
	spoil  func(*world)
	says   string // the message of kops doctor, with digests as words; a regular expression if it begins with "~"
	remedy string
	waits  bool // it does not count as broken yet
	// ago is the number of seconds for which user data has run.
	ago string
	// ahead is how far the clock of nodeup's machine is ahead; later replaces it after the first attempt.
	ahead, later time.Duration
}

const (
	controlPlane = api.RoleControlPlane
	worker       = api.RoleNode
)

// clearFaults removes all faults.
func (w *world) clearFaults() {
	w.Helper()
	w.setFault(faultSet{})
	w.replacePrograms(nil, false)
	for _, key := range w.changed {
		w.put(key, w.files[key])
	}
	w.changed = nil
	w.restartController()
}

// restartController makes kops-controller forget its cached data.
func (w *world) restartController() {
	w.stopController()
	w.startController(w.own())
}

// words replaces digests with words.
func (w *world) words(text string) string {
	return strings.NewReplacer(w.nodeup.Key(), "programs/…", w.nodeup.Program, "PROGRAM", digest([]byte(oldNodeup)), "OLD").Replace(text)
}

const oldNodeup = "#!/bin/bash\n# of yesterday\n"

// machine is a machine under attack.
type machine struct{ *sandbox.Machine }

// doctor returns how kops doctor interprets the console.
func (m machine) doctor() health.Start {
	return health.ReadStart(platform.BootRecord{Console: []byte(strings.ReplaceAll(m.Console(), "\r", ""))})
}

// checkDiagnosis compares how kops doctor interprets the console.
func (a attack) checkDiagnosis(w *world, m machine) {
	m.Helper()
	got := m.doctor()
	message := w.words(got.Message)
	same := message == a.says
	if pattern, ok := strings.CutPrefix(a.says, "~"); ok {
		same = regexp.MustCompile("^" + pattern + "$").MatchString(message)
	}
	if !same || got.Remedy != a.remedy || got.Broken == a.waits {
		m.Errorf("kops doctor says\n%s\n%s\nbroken: %v\nwant\n%s\n%s\nThe console:\n%s", message, got.Remedy, got.Broken, a.says, a.remedy, w.words(m.Console()))
	}
}

// waitUntilHealed lets the machine continue until it exits on its own, which must happen soon.
func waitUntilHealed(m machine) {
	m.Helper()
	for n := 0; ; n++ {
		m.Resume()
		if m.WaitUntilRest() {
			return
		}
		if n == 20 {
			m.Fatalf("it does not heal\n%s", m.Console())
		}
	}
}

// TestTheFetchPathUnderAttack boots machines with a fault, which is then removed.
func TestTheFetchPathUnderAttack(t *testing.T) {
	if !sandbox.Enter(t) {
		return
	}
	w := newWorld(t)
	sandbox.Resolve(t, storeHost, dualHost, tokenHost, "github.com", "dl.k8s.io", "artifacts.k8s.io")
	for _, role := range []api.InstanceGroupRole{controlPlane, worker} {
		if n := len(w.userData(role)); n > 14<<10 { // EC2 takes 16 KiB; a second authority needs 1 KiB of it
			t.Errorf("user data of a %s have %d bytes", role, n)
		} else {
			t.Logf("user data of a %s have %d bytes", role, n)
		}
	}
	t.Run("the boot script", w.scripts)
	t.Run("nodeup", w.nodeups)
}

// scripts runs unmodified user data.
func (w *world) scripts(t *testing.T) {
	for _, a := range scriptAttacks() {
		t.Run(string(a.role)+"/"+a.name, func(t *testing.T) {
			a.spoil(w)
			m := machine{sandbox.NewMachine(t)}
			m.RunBootScript(w.userData(a.role), cmp.Or(a.ago, "0"))
			if m.WaitUntilRest() {
				t.Fatalf("it ends\n%s", m.Console())
			}
			a.checkDiagnosis(w, m)
			if _, err := os.Stat("/opt/kops/ran"); err == nil {
				t.Error("something was run")
			}
			w.clearFaults()
			waitUntilHealed(m)
			if ran, err := os.ReadFile("/opt/kops/ran"); err != nil || string(ran) != "--install-systemd-unit\n--conf=/opt/kops/conf/kube_env.yaml\n--v=8\n" {
				t.Errorf("nodeup was run with %q, %v\n%s", ran, err, m.Console())
			}
			if got := m.doctor(); got.Broken || got.Message != "it has fetched nodeup, which has not written a report yet" {
				t.Errorf("after it kops doctor says %s", got.Message)
			}
		})
	}
}

// Remedies.
const (
	reinstall = "run kops update cluster --yes, which writes nodeup again; the machine retries by itself"
	clockward = "set the machine's clock, or let it reach a time server (NTP, UDP port 123); the machine retries by itself"
	stranger  = "check that the address belongs to this cluster; if the certificate authority was replaced, run kops update cluster --yes and replace the machine"
	mirror    = "make one of these places reachable from the machine, or set spec.assets.fileRepository to a mirror that has the file with the given digest"
	replace   = "run kops update cluster --yes and then kops rolling-update cluster --yes, so that the machine is replaced by one with the new configuration"
	reach     = "check that kops-controller runs on the control plane, and that this machine can reach its port"
	waiting   = "its boot waits for the control plane, which does not answer yet"
)

// denyIdentity makes the store refuse every client.
func denyIdentity(w *world) { w.restartController(); w.setFault(faultSet{denied: true}) }

// foreignKey makes another cluster's control plane answer.
func foreignKey(w *world) { w.stopController(); w.startController(w.foreign) }

func scriptAttacks() []attack {
	const store, server = "the cluster's store (s3://state/k.example.com/programs/…)", "kops-controller at 10.0.0.9:3988"
	return []attack{
		{name: "a changed byte", role: controlPlane, spoil: func(w *world) {
			data := sandbox.Compress(w, sandbox.Nodeup)
			data[len(data)-6] ^= 1 // in its checksum
			w.replaceObject(w.nodeup.Key(), data)
		}, says: "the file from " + store + " is not the expected nodeup: it cannot be unpacked", remedy: reinstall},
		{name: "an old nodeup", role: controlPlane, spoil: func(w *world) { w.replaceObject(w.nodeup.Key(), sandbox.Compress(w, oldNodeup)) },
			says: "the file from " + store + " is not the expected nodeup: its SHA-256 is OLD, and not PROGRAM; it is not run", remedy: reinstall},
		{name: "another authority", role: controlPlane, spoil: func(w *world) { w.setFault(faultSet{authority: true}) },
			says:   "~it does not trust the server that answers for " + regexp.QuoteMeta(store) + ": curl: \\(60\\) .*certificate.*",
			remedy: "use a certificate from an authority that the machine's image trusts"},
		{name: "a store that refuses", role: controlPlane, spoil: denyIdentity, says: "it is refused by " + store + ": 403 AccessDenied: Access Denied",
			remedy: "let the role of the machine read the bucket: kops update cluster --yes writes its policy again; also check the policy of the bucket and its encryption key"},
		{name: "a store without nodeup", role: controlPlane, spoil: func(w *world) { w.replaceObject(w.nodeup.Key(), nil) },
			says: "nodeup is not at " + store + ": 404 NoSuchKey: The specified key does not exist.", remedy: reinstall},
		{name: "no role", role: controlPlane, spoil: func(w *world) { w.setFault(faultSet{roleless: true}) },
			says:   "it has no credentials to fetch nodeup with from " + store + ": the metadata service gave none",
			remedy: "give the machine its role: kops update cluster --yes; and let it reach its metadata service"},
		{name: "a clock ahead", role: controlPlane, spoil: func(w *world) { w.setFault(faultSet{clock: -2 * time.Hour}) },
			says: "its clock is wrong, and " + store + " refuses it: the clock of the machine is 2h0m0s ahead; 403 RequestTimeTooSkewed: The difference between the request time and the current time is too large.", remedy: clockward},
		{name: "a clock behind", role: controlPlane, spoil: func(w *world) { w.setFault(faultSet{clock: 2 * time.Hour}) },
			says: "its clock is wrong, and " + store + " refuses it: the clock of the machine is 2h0m0s behind; 403 RequestTimeTooSkewed: The difference between the request time and the current time is too large.", remedy: clockward},
		{name: "a changed byte in the store", role: worker, spoil: func(w *world) {
			w.restartController()
			w.replaceObject(w.nodeup.Key(), sandbox.Compress(w, sandbox.Nodeup+"#"))
		},
			says: "nodeup is not at " + server + ": 404 the cluster's store has a different file for this digest; run kops update cluster --yes to write it again", remedy: reinstall},
		{name: "an old nodeup", role: worker, spoil: func(w *world) { w.replacePrograms(sandbox.Compress(w, oldNodeup), false) },
			says: "the file from " + server + " is not the expected nodeup: its SHA-256 is OLD, and not PROGRAM; it is not run", remedy: reinstall},
		{name: "a nodeup without end", role: worker, spoil: func(w *world) { w.replacePrograms(make([]byte, 1<<20), true) },
			says: "~it cannot fetch nodeup from " + regexp.QuoteMeta(server) + ": curl.*", remedy: "for details, see the console: kops doctor"},
		{name: "a small file that unpacks to a large one", role: worker, spoil: func(w *world) { w.replacePrograms(sandbox.Compress(w, strings.Repeat("\x00", 300<<20)), false) },
			says: "the file from " + server + " is not the expected nodeup: it cannot be unpacked", remedy: reinstall},
		{name: "another authority", role: worker, spoil: foreignKey,
			says: "~it does not trust the server that answers for " + regexp.QuoteMeta(server) + ": curl: \\(60\\) .*certificate.*", remedy: stranger},
		{name: "a store that refuses", role: worker, spoil: denyIdentity,
			says:   server + " cannot serve nodeup now: 502 kops-controller cannot read the cluster's store: list s3://state/k.example.com/programs/: AccessDenied: Access Denied (request r)",
			remedy: "make sure that the control plane can read its store; see the log of kops-controller"},
		{name: "no control plane yet", role: worker, spoil: (*world).stopController, says: waiting, waits: true},
		{name: "no control plane for long", role: worker, spoil: (*world).stopController, ago: "400",
			says:   "~it gets no answer from " + regexp.QuoteMeta(server) + ": curl: \\(7\\) .*",
			remedy: "find out why the control plane is not up (kops doctor shows its machines first), and let this machine reach its port 3988"},
	}
}

// nodeups has nodeup set up a machine of the cluster, after user data has downloaded it.
func (w *world) nodeups(t *testing.T) {
	for _, a := range nodeupAttacks() {
		t.Run(string(a.role)+"/"+a.name, func(t *testing.T) {
			m := machine{sandbox.NewMachine(t)}
			m.RunBootScript(w.userData(a.role), "0")
			if !m.WaitUntilRest() {
				t.Fatalf("nodeup is not fetched\n%s", m.Console())
			}
			a.spoil(w)
			var off atomic.Int64
			off.Store(int64(a.ahead))
			m.RunNodeup("/opt/kops/conf/kube_env.yaml", sandbox.Environment(t), func() time.Time { return time.Now().Add(time.Duration(off.Load())) })
			if m.WaitUntilRest() {
				t.Fatalf("it ends\n%s", m.Console())
			}
			if a.later > 0 {
				off.Store(int64(a.later))
				m.Resume()
				if m.WaitUntilRest() {
					t.Fatalf("it ends\n%s", m.Console())
				}
			}
			a.checkDiagnosis(w, m)
			off.Store(0)
			w.clearFaults()
			waitUntilHealed(m)
			if got := m.doctor(); got.Report == nil || !got.Report.Done || got.Broken {
				t.Errorf("after it kops doctor says %s\n%s", got.Message, m.Console())
			}
		})
	}
}

func nodeupAttacks() []attack {
	file := func(w *world) { w.setFault(faultSet{file: true}) }
	config := func(role api.InstanceGroupRole, group string) func(w *world) {
		return func(w *world) { w.replaceObject(layout.NodeConfig(string(role), group), []byte("CAs: {}\n")) }
	}
	const (
		broken  = "its boot failed in the phase "
		stored  = "s3://state/k.example.com/igconfig/control-plane/control-plane/nodeupconfig.yaml"
		reads   = broken + "configure: read the node configuration: read " + stored + ": "
		asks    = broken + "configure: get the node configuration from kops-controller: "
		changed = "~" + broken + "download: host_asset/(\\S+): fetch \\S+: https://\\S+: the file is not the requested one: its SHA-256 digest is [0-9a-f]{64}, not .*"
		another = "~" + broken + "configure: the node configuration is not the one that this machine was started with: its hash is \\S+, not \\S+"
	)
	return []attack{
		{name: "a changed byte of a file", role: controlPlane, spoil: file, says: changed, remedy: mirror},
		{name: "another configuration", role: controlPlane, spoil: config(controlPlane, "control-plane"), says: another, remedy: replace},
		{name: "another authority", role: controlPlane, spoil: func(w *world) { w.setFault(faultSet{authority: true}) },
			says:   "~" + regexp.QuoteMeta(reads) + ".*tls: failed to verify certificate: x509: certificate signed by unknown authority.*",
			remedy: "check the proxy, or install the certificate authority of the state store on this machine"},
		{name: "a store that refuses", role: controlPlane, spoil: denyIdentity, says: reads + "AccessDenied: Access Denied (request r)",
			remedy: "allow s3:GetObject on arn:aws:s3:::state/k.example.com/igconfig/control-plane/control-plane/nodeupconfig.yaml to this identity"},
		{name: "no role", role: controlPlane, spoil: func(w *world) { w.setFault(faultSet{roleless: true}) }, says: reads + "the machine has no role",
			remedy: "give the machine an instance profile, or wait until AWS has attached it"},
		{name: "a changed byte of a file", role: worker, spoil: file, says: changed, remedy: mirror},
		{name: "another configuration", role: worker, spoil: config(worker, "nodes"), says: another, remedy: replace},
		{name: "another authority", role: worker, spoil: foreignKey,
			says: "~" + broken + "configure: connect to https://10.0.0.9:3988/: tls: failed to verify certificate: x509: certificate signed by unknown authority.*", remedy: stranger},
		{name: "a store that refuses", role: worker, spoil: denyIdentity,
			says:   broken + "configure: https://10.0.0.9:3988/ answered 500: kops-controller cannot read the cluster's store; see its log",
			remedy: "see the log of kops-controller on the control plane for the reason; the machine retries by itself"},
		{name: "no control plane yet", role: worker, spoil: (*world).stopController, says: waiting, waits: true},
		{name: "no control plane for long", role: worker, spoil: (*world).stopController, later: 6 * time.Minute,
			says: "~" + broken + "configure: connect to https://10.0.0.9:3988/: .*connection refused", remedy: reach},
		{name: "a clock ahead", role: worker, spoil: func(*world) {}, ahead: 2 * time.Hour, says: "~" + asks + regexp.QuoteMeta("the clock of the machine is 2h0m0s ahead: https://10.0.0.9:3988/ answered 403: the identity is not proven: AWS rejected the signature: ") + ".*", remedy: clockward},
		{name: "a clock behind", role: worker, spoil: func(*world) {}, ahead: -2 * time.Hour, says: "~" + asks + regexp.QuoteMeta("the clock of the machine is 2h0m0s behind: https://10.0.0.9:3988/ answered 403: the identity is not proven: AWS rejected the signature: ") + ".*", remedy: clockward},
	}
}
