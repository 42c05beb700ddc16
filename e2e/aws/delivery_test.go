package aws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/platform/aws/awstest"
)

// storedPrograms returns kops' own programs in the cluster's store; the content of each must match its
// key.
func (w *world) storedPrograms() []string {
	w.Helper()
	var out []string
	s := openBucket(w, w.server)
	for _, key := range w.objects() {
		own, ok := strings.CutPrefix(key, name+"/")
		sum, base, is := programs.ParseKey(own)
		if !ok || !is {
			continue
		}
		data, _, err := s.Get(w.Context(), key)
		if err != nil {
			w.Fatal(err)
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			w.Errorf("%s holds something else", key)
		}
		out = append(out, base)
	}
	slices.Sort(out)
	return out
}

// The kops files that machines need are copied to the store once, for the architecture of
// their image, and files that no machine needs any longer are removed when possible.
func TestProgramsTravelWithTheCluster(t *testing.T) {
	w := newWorld(t, awstest.Moto(t))
	w.small()
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "linux/amd64/nodeup-amd64.gz") {
		t.Errorf("the preview does not show them:\n%s", r.Out)
	}
	w.Must("update", "cluster", name, "--yes")
	want := []string{"channels-amd64.tar", "etcd-manager-amd64.tar", "kops-controller-amd64.tar", "kube-apiserver-healthcheck-amd64.tar", "nodeup-amd64.gz"}
	if got := w.storedPrograms(); !slices.Equal(got, want) {
		t.Errorf("delivered are %v", got)
	}
	w.Proxy.Reset()
	if r := w.Must("update", "cluster", name, "--yes"); !strings.Contains(r.Out, "No changes") || w.Proxy.Writes() > 4 { // the lease, and the revision
		t.Errorf("the second time %d writes were made:\n%s", w.Proxy.Writes(), r.Out)
	}
	for group, from := range map[string]string{"control-plane-us-east-1a": "=s3://" + bucket + "/" + name + "/programs/", "nodes-us-east-1a": "=https://kops-controller.internal." + name + ":3988/programs/"} {
		if text := w.userData(group); !strings.Contains(text, "NODEUP_URL_AMD64"+from) || strings.Contains(text, "artifacts.k8s.io") {
			t.Errorf("machines of %s fetch nodeup elsewhere:\n%.400s", group, text)
		}
	}
	w.Release("of another build")
	r := w.Must("update", "cluster", name, "--yes")
	if got := w.storedPrograms(); len(got) != 2*len(want) {
		t.Errorf("after another build delivered are %v\n%s", got, r.Out)
	}
	w.Must("update", "cluster", name, "--yes", "--prune")
	if got := w.storedPrograms(); !slices.Equal(got, want) {
		t.Errorf("pruned, delivered are %v", got)
	}
	w.Must("delete", "cluster", name, "--yes")
	if left := w.objects(); len(left) > 0 {
		t.Errorf("the deletion left %v", left)
	}
}

// userData returns the user data of a group's machines.
func (w *world) userData(group string) string {
	w.Helper()
	out, err := ec2.NewFromConfig(w.server.AWS()).DescribeLaunchTemplateVersions(w.Context(), &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Latest"}})
	if err != nil {
		w.Fatal(err)
	}
	for _, v := range out.LaunchTemplateVersions {
		if strings.HasPrefix(*v.LaunchTemplateName, group+".") {
			text, err := base64.StdEncoding.DecodeString(*v.LaunchTemplateData.UserData)
			if err != nil {
				w.Fatal(err)
			}
			return string(text)
		}
	}
	w.Fatalf("there is no launch template of %s", group)
	return ""
}
