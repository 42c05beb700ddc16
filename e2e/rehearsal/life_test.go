package rehearsal

import (
	"slices"
	"strings"
	"time"

	"kops.local/kops/internal/platform/local/localtest"
)

// life is what differs by cloud in the life of a cluster of a control plane and two workers.
type life struct {
	cloud, create string // the cloud's title, and options of kops create cluster
	// groups are the workers' and the control plane's; change sets a field that only new machines have,
	// which previews show as field.
	groups        [2]string
	change, field string
	// check makes further checks of the valid cluster; may be nil.
	check func()
	// recreate waits until the cloud, or its owner, has recreated a machine that was killed after begun.
	recreate func(what, doomed string, begun time.Time)
}

// live creates a cluster from its user data alone, kills a worker and the only control plane, whose data
// stay, rolls a change through the workers once, and, if KOPS_E2E=whole is set, through the control plane,
// and deletes the cluster.
func (w *world) live(l life) {
	w.Helper()
	planes := 0 // to roll
	if localtest.IsFull() {
		planes = 1
	}
	kops := func(args string) string {
		w.Helper()
		return w.must("exec kops " + args)
	}
	kops("create cluster " + l.create + " --node-count 2 " + cluster)
	begun := time.Now()
	kops("update cluster " + cluster + " --yes --admin")
	w.Logf("FIGURE %s, the first update: %s", l.cloud, time.Since(begun).Round(100*time.Millisecond))
	w.checkUnchanged("")
	kops("validate cluster " + cluster + " --wait 10m --interval 1s")
	w.Logf("FIGURE %s, 1 + 2 from the update to validated: %s", l.cloud, time.Since(begun).Round(100*time.Millisecond))
	w.nodes(3)
	w.serves()
	if l.check != nil {
		l.check()
	}
	w.note()
	w.checkKilled(l, "worker", w.nodesWithRole("node")[0])
	w.checkKilled(l, "control plane", w.nodesWithRole("control-plane")[0])
	w.noted()

	before := w.machines()
	for _, g := range l.groups[:1+planes] {
		kops("edit instancegroup " + g + " --name " + cluster + " --set " + l.change)
	}
	kops("update cluster " + cluster + " --yes")
	if out := kops("rolling-update cluster " + cluster); strings.Count(out, l.field) != 2+planes {
		w.Errorf("the preview of the roll:\n%s", out)
	}
	begun = time.Now()
	kops("rolling-update cluster " + cluster + " --yes --node-interval 1s --control-plane-interval 1s 2>&1")
	w.Logf("FIGURE %s, %d + 2 rolled: %s", l.cloud, planes, time.Since(begun).Round(time.Second))
	w.nodes(3)
	if left := slices.DeleteFunc(w.machines(), func(m string) bool { return !slices.Contains(before, m) }); len(left) != 1-planes {
		w.Errorf("%v were not replaced", left)
	}
	if out := kops("rolling-update cluster " + cluster); !strings.Contains(out, "No rolling-update required") {
		w.Errorf("a rolling update of what is up to date:\n%s", out)
	}
	kops("validate cluster " + cluster + " --wait 8m --interval 1s")
	w.noted()
	kops("delete cluster " + cluster + " --yes")
	w.waitUntilGone()
}

// checkKilled kills a machine, and waits until it is recreated and the cluster has recovered.
func (w *world) checkKilled(l life, what, doomed string) {
	w.Helper()
	begun := time.Now()
	w.kill(doomed)
	l.recreate(what, doomed, begun)
	w.nodes(3)
	w.must("kops validate cluster " + cluster + " --wait 8m --interval 1s")
	w.Logf("FIGURE %s, a killed %s, until the cluster is valid again: %s", l.cloud, what, time.Since(begun).Round(time.Second))
	w.wait("two servers again", func() error {
		_, err := w.servers(1)
		return err
	})
}
