package aws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/contract/programs"
	"kops.local/kops/internal/test/cloudsuite"
)

// storedPrograms returns kops' own programs in the cluster's store; the content of each must match its
// key.
func storedPrograms(w *cloudsuite.World) []string {
	w.Helper()
	var out []string
	for _, key := range w.Inventory() {
		own, ok := strings.CutPrefix(key, "object "+name+"/")
		sum, base, is := programs.ParseKey(own)
		if !ok || !is {
			continue
		}
		data, _, err := of(w).store.Get(w.Context(), name+"/"+own)
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

// deliverPrograms: the kops files that machines need are copied to the store once, for the architecture of
// their image, and files that no machine needs any longer are removed when possible.
func deliverPrograms(w *cloudsuite.World) {
	w.Small()
	if r := w.Must("update", "cluster", name); !strings.Contains(r.Out, "linux/amd64/nodeup-amd64.gz") {
		w.Errorf("the preview does not show them:\n%s", r.Out)
	}
	w.Must("update", "cluster", name, "--yes")
	want := []string{"channels-amd64.tar", "etcd-manager-amd64.tar", "kops-controller-amd64.tar", "kube-apiserver-healthcheck-amd64.tar", "nodeup-amd64.gz"}
	if got := storedPrograms(w); !slices.Equal(got, want) {
		w.Errorf("delivered are %v", got)
	}
	w.Proxy.Reset()
	if r := w.Must("update", "cluster", name, "--yes"); !strings.Contains(r.Out, "No changes") || w.Proxy.Writes() > 4 { // the lease, and the revision
		w.Errorf("the second time %d writes were made:\n%s", w.Proxy.Writes(), r.Out)
	}
	for group, from := range map[string]string{"control-plane-us-east-1a": "=s3://" + bucket + "/" + name + "/programs/", "nodes-us-east-1a": "=https://kops-controller.internal." + name + ":3988/programs/"} {
		if text := userData(w, group); !strings.Contains(text, "NODEUP_URL_AMD64"+from) || strings.Contains(text, "artifacts.k8s.io") {
			w.Errorf("machines of %s fetch nodeup elsewhere:\n%.400s", group, text)
		}
	}
	w.Release("of another build")
	r := w.Must("update", "cluster", name, "--yes")
	if got := storedPrograms(w); len(got) != 2*len(want) {
		w.Errorf("after another build delivered are %v\n%s", got, r.Out)
	}
	w.Must("update", "cluster", name, "--yes", "--prune")
	if got := storedPrograms(w); !slices.Equal(got, want) {
		w.Errorf("pruned, delivered are %v", got)
	}
	w.Delete()
}

// userData returns the user data of a group's machines.
func userData(w *cloudsuite.World, group string) string {
	w.Helper()
	out, err := of(w).api.EC2.DescribeLaunchTemplateVersions(w.Context(), &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{"$Latest"}})
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
