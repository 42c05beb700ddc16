package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"kops.local/kops/internal/test/cloudsuite"
)

// runKarpenter: Karpenter's machines find the API at the load balancer, like others, if no name is published.
func runKarpenter(w *cloudsuite.World) {
	w.Small(append([]string{"--instance-manager", "karpenter"}, w.Cloud.Nameless...)...)
	w.Apply()
	balancers, err := of(w).api.ELB.DescribeLoadBalancers(w.Context(), &elb.DescribeLoadBalancersInput{})
	if err != nil || len(balancers.LoadBalancers) != 1 {
		w.Fatalf("%+v, %v", balancers, err)
	}
	read := func(key string) string {
		text, _, err := of(w).store.Get(w.Context(), name+key)
		if err != nil {
			w.Fatal(err)
		}
		return string(text)
	}
	join := "https://" + *balancers.LoadBalancers[0].DNSName + ":3988/"
	manifest := read("/addons/karpenter.sh/k8s-1.19.yaml")
	for _, text := range []string{read("/igconfig/node/nodes/nodeupscript.sh"), manifest} {
		if !strings.Contains(text, join) {
			w.Errorf("machines do not join at %s:\n%s", join, text)
		}
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(manifest)))
	if channel := read("/addons/bootstrap-channel.yaml"); !strings.Contains(channel, "manifestHash: "+hex.EncodeToString(sum[:])) {
		w.Errorf("the channel has another digest of the manifest than %x:\n%s", sum, channel)
	}
	dir := w.TempDir()
	w.Must("update", "cluster", name, "--target", "terraform", "--out", dir)
	template, err := os.ReadFile(filepath.Join(dir, "data", "aws_s3_object_nodeupscript-nodes_content"))
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(string(template), "- https://${aws_lb_api_a_example_com_dns_name}:3988/") {
		w.Errorf("Terraform writes another host:\n%s", template)
	}
	document, err := os.ReadFile(filepath.Join(dir, "kubernetes.tf"))
	if err != nil || !strings.Contains(string(document), "sha256(trimspace(") {
		w.Errorf("Terraform does not compute the digest of the manifest, %v", err)
	}
	w.Delete()
}
