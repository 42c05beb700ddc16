package health

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	clusterCritical = "system-cluster-critical"
	nodeCritical    = "system-node-critical"
)

// critical reports whether a cluster needs a pod.
func critical(p *corev1.Pod) bool {
	return p.Spec.PriorityClassName == clusterCritical || p.Spec.PriorityClassName == nodeCritical
}

// pods reports the critical pods that do not run. A pod that a node needs counts toward the node's
// group.
func (c *check) pods() {
	for i := range c.API.Pods {
		p := &c.API.Pods[i]
		if !critical(p) {
			continue
		}
		n := c.byName[p.Spec.NodeName]
		why := PodTrouble(p)
		if why == "" || n != nil && c.isLeaving(n) {
			continue
		}
		f := Failure{Kind: KindPod, Name: p.Namespace + "/" + p.Name, Message: fmt.Sprintf("the %s pod %s", p.Spec.PriorityClassName, why)}
		if n != nil && p.Spec.PriorityClassName == nodeCritical {
			f.Group = c.groupOf(n)
		}
		c.fail(f)
	}
}

// PodTrouble says why a pod does not do its work, or "" if it does, has finished, or is
// terminating.
func PodTrouble(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || leftover(p) {
		return ""
	}
	if why := containerTrouble(p); len(why) > 0 {
		return strings.Join(why, ", ")
	}
	switch p.Status.Phase {
	case corev1.PodPending:
		return "is pending" + withReason(pendingReason(p))
	case corev1.PodFailed:
		return "has failed" + withReason(reasonAndMessage(p.Status.Reason, p.Status.Message))
	case corev1.PodUnknown:
		return "is in an unknown state" + withReason("its node does not report it")
	}
	return ""
}

// leftover reports whether a failed pod was evicted or shut down, so that another replaces it.
func leftover(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && slices.Contains([]string{"Evicted", "NodeShutdown", "NodeAffinity", "Terminated", "Preempting"}, p.Status.Reason)
}

// pendingReason says what a pod is waiting for.
func pendingReason(p *corev1.Pod) string {
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodReadyToStartContainers} {
		for _, c := range p.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionFalse && c.Reason != "" {
				return reasonAndMessage(c.Reason, c.Message)
			}
		}
	}
	return reasonAndMessage(p.Status.Reason, p.Status.Message)
}

// containerTrouble describes the trouble of each container. While an init
// container is in trouble, the others wait and are not listed.
func containerTrouble(p *corev1.Pod) []string {
	var out []string
	limit := messagesLimit / max(1, len(p.Status.InitContainerStatuses)+len(p.Status.ContainerStatuses))
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Terminated != nil && s.State.Terminated.ExitCode == 0 || s.State.Running != nil {
			continue
		}
		if why := stateTrouble(s, limit); why != "" {
			out = append(out, fmt.Sprintf("is not ready: the container %s %s", s.Name, why))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Ready {
			continue
		}
		if why := stateTrouble(s, limit); why != "" {
			out = append(out, fmt.Sprintf("is not ready: the container %s %s", s.Name, why))
		}
	}
	return out
}

// stateTrouble says what state a container that is not ready is in. limit is as for describeTermination.
func stateTrouble(s corev1.ContainerStatus, limit int) string {
	last := s.LastTerminationState.Terminated
	switch {
	case s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && last != nil:
		return fmt.Sprintf("crashes (CrashLoopBackOff), %d restarts; the last time it %s", s.RestartCount, describeTermination(last, limit))
	case s.State.Waiting != nil && slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, s.State.Waiting.Reason):
		return "is being created" + withReason(lastLine(s.State.Waiting.Message))
	case s.State.Waiting != nil:
		return "waits" + withReason(reasonAndMessage(s.State.Waiting.Reason, s.State.Waiting.Message))
	case s.State.Terminated != nil:
		return describeTermination(s.State.Terminated, limit)
	case s.State.Running != nil && last != nil:
		return fmt.Sprintf("runs but fails its readiness check, %d restarts; the last time it %s", s.RestartCount, describeTermination(last, limit))
	case s.State.Running != nil:
		return "runs but fails its readiness check"
	}
	return "has no state yet"
}

// messagesLimit is the length in bytes from which on kubelet cuts the termination messages of a pod:
// each container's to the same share (pkg/kubelet/kuberuntime: MaxPodTerminationMessageLogLength).
const messagesLimit = 12 << 10

// maxRune is how much shorter than the limit a cut message may be.
const maxRune = 4

// describeTermination describes a container's termination, whose message kubelet cuts to a limit: the
// error may be after that.
func describeTermination(t *corev1.ContainerStateTerminated, limit int) string {
	text := fmt.Sprintf("ended with code %d", t.ExitCode)
	if t.Signal != 0 {
		text = fmt.Sprintf("was ended by signal %d", t.Signal)
	}
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += " (" + t.Reason + ")"
	}
	text += withReason(errorLine(t.Message))
	if len(t.Message) >= limit-maxRune {
		text += " (its message is cut; kops doctor shows its log)"
	}
	return text
}

// withReason adds a reason, if there is one.
func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// reasonAndMessage joins Kubernetes' reason and its message.
func reasonAndMessage(reason, message string) string {
	message = lastLine(message)
	if reason == "" || message == "" {
		return cmp.Or(reason, message)
	}
	return reason + ": " + message
}

// maxLine is the length in bytes from which on messages are shortened: their beginning is kept, and
// their end, which often is the cause.
const (
	maxLine   = 400
	lineStart = 120
)

// lastLine turns a text into one line of limited length. Of several lines it takes the last: programs
// usually print the reason for their exit there.
func lastLine(text string) string {
	lines := linesOf(text)
	if len(lines) == 0 {
		return ""
	}
	return shorten(lines[len(lines)-1])
}

// failed matches lines of logs that report an error: of logfmt and of JSON, of klog, and of Go's runtime.
var failed = regexp.MustCompile(`(?i)\blevel"?[=:]"?(fatal|error|panic)|^[FE][0-9]{4} |^(panic|fatal error):`)

// errorLine returns the most informative line of the end of a log: the last that reports an error, because
// programs log more while they stop; otherwise the last.
func errorLine(text string) string {
	for _, l := range slices.Backward(linesOf(text)) {
		if failed.MatchString(l) {
			return shorten(l)
		}
	}
	return lastLine(text)
}

// linesOf returns the lines of a text that are not empty.
func linesOf(text string) []string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

func shorten(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:lineStart], "") + "…" + strings.ToValidUTF8(line[len(line)-maxLine+lineStart:], "")
}
