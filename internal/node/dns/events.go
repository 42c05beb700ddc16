package dns

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// noticeAge is how often an event is written again: API servers keep events for an hour.
	noticeAge = 30 * time.Minute
	// maxNotices limits the events of a round.
	maxNotices = 20
	// maxMessage is the maximum length of an event's message.
	maxMessage = 1024
)

// Events receives the reasons why names of an object are not published.
type Events interface {
	Refused(ctx context.Context, o Object, why string) error
}

// notice is an event that was written.
type notice struct {
	message string
	at      time.Time
}

// notify writes an event for each object with refused names, when they change and
// every noticeAge.
func (c *Controller) notify(ctx context.Context, refused []Refusal) {
	if c.Events == nil {
		return
	}
	lines := map[Object][]string{}
	for _, r := range slices.SortedFunc(slices.Values(refused), compareRefusals) {
		objects := []Object{r.Object}
		if r.Object == (Object{}) {
			objects = c.requesters[r.Name]
		}
		for _, o := range objects {
			lines[o] = append(lines[o], r.Name+" is not published: "+r.Why)
		}
	}
	maps.DeleteFunc(c.notices, func(o Object, _ notice) bool { return lines[o] == nil })
	if c.notices == nil {
		c.notices = map[Object]notice{}
	}
	written := 0
	for _, o := range slices.SortedFunc(maps.Keys(lines), compareObjects) {
		message := strings.Join(lines[o], "\n")
		last, now := c.notices[o], c.Now()
		if last.message == message && now.Sub(last.at) < noticeAge || written == maxNotices {
			continue
		}
		written++
		if err := c.Events.Refused(ctx, o, message); err != nil {
			c.Log.Warn("cannot write an event", "kind", o.Kind, "namespace", o.Namespace, "object", o.Name, "error", err)
		}
		c.notices[o] = notice{message, now}
	}
}

// EventsOf returns an Events that writes to an API server.
func EventsOf(core corev1client.EventsGetter, now func() time.Time) Events {
	return recorder{core, now}
}

type recorder struct {
	core corev1client.EventsGetter
	now  func() time.Time
}

func (r recorder) Refused(ctx context.Context, o Object, why string) error {
	if len(why) > maxMessage {
		why = strings.ToValidUTF8(why[:maxMessage-len("…")], "") + "…"
	}
	now := metav1.NewTime(r.now())
	_, err := r.core.Events(o.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "dns-controller.", Namespace: o.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		Type:           corev1.EventTypeWarning, Reason: "NameNotPublished", Message: why,
		Source: corev1.EventSource{Component: "dns-controller"}, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		ReportingController: "dns-controller",
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create an event: %w", err)
	}
	return nil
}
