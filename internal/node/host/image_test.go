package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/node/host"
	"kops.local/kops/internal/test/kindtest"
)

// A machine that is being warmed must become ready even if it cannot pull some images ahead:
// only the kubelet can log in to a registry.
func TestImagesArePulledAhead(t *testing.T) {
	m := machine(t)
	var have, warned []string
	m.Warn = func(text string) { warned = append(warned, text) }
	m.Command = func(_ context.Context, name string, args ...string) ([]byte, error) {
		last := args[len(args)-1]
		switch strings.Join(append([]string{name}, args[:4]...), " ") {
		case "ctr --namespace k8s.io images ls":
			return []byte(strings.Join(have, "\n")), nil
		case "ctr --namespace k8s.io images pull":
			if strings.HasPrefix(last, "private.") {
				return nil, errors.New("401 Unauthorized")
			}
			have = append(have, last)
		case "ctr --namespace k8s.io images rm":
			have = slices.DeleteFunc(have, func(s string) bool { return s == last })
		default:
			t.Errorf("ran %s %v", name, args)
		}
		return nil, nil
	}
	kindtest.Run(t, &host.Images, m, kindtest.Life[host.Image]{OnlyNamed: true, Want: host.Image{Name: "registry.k8s.io/kube-proxy:v1.36.3"}})
	const private = "private.example.com/a:1"
	if err := host.Images.Create(t.Context(), m, &host.Image{Name: private}); err != nil {
		t.Error(err)
	}
	if got, err := host.Images.List(t.Context(), m, resource.Scope{Names: []string{private}}); err != nil || len(got) > 0 {
		t.Errorf("%v %+v", err, got)
	}
	if want := "the image " + private + " was not pulled in advance: 401 Unauthorized"; strings.Join(warned, "\n") != want {
		t.Errorf("warned %q", warned)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := host.Images.Create(ended, m, &host.Image{Name: private}); err == nil {
		t.Error("a run that was ended has pulled an image")
	}
}

// An image that is in no registry is imported from an archive, and stays.
func TestImagesAreImported(t *testing.T) {
	m := machine(t)
	var ran []string
	m.Command = func(_ context.Context, name string, args ...string) ([]byte, error) {
		ran = append(ran, name+" "+strings.Join(args, " "))
		if slices.Contains(args, "kops.internal/other:1") {
			return nil, errors.New("not found")
		}
		return nil, nil
	}
	i := &host.Image{Name: "kops.internal/channels:1", Archive: "ab_channels-amd64.tar"}
	if err := host.Images.Create(t.Context(), m, i); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ctr --namespace k8s.io images import " + m.Cache + "/ab_channels-amd64.tar",
		"ctr --namespace k8s.io images label kops.internal/channels:1 io.cri-containerd.pinned=pinned"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q", ran)
	}
	i.Name = "kops.internal/other:1"
	if err := host.Images.Create(t.Context(), m, i); err == nil || !strings.Contains(err.Error(), "keep the image kops.internal/other:1: not found") {
		t.Errorf("%v", err)
	}
}
