package addons

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/names"
)

// withRole lists the service accounts, all in the namespace kube-system, that
// may have a role of the cloud's of their own.
func withRole() []string {
	return []string{"aws-cloud-controller-manager", "aws-load-balancer-controller", "aws-node-termination-handler", "cert-manager",
		"cluster-autoscaler", "dns-controller", "ebs-csi-controller-sa", "external-dns", "karpenter", "kube-router"}
}

// mountRole lets the pods of an object act in the role of their service
// account, where the cluster gives such roles on AWS.
func (in Input) mountRole(o map[string]any) {
	iam := in.Cluster.Spec.IAM
	if in.Cluster.CloudProviderID() != api.CloudAWS || iam == nil || iam.UseServiceAccountExternalPermissions == nil ||
		!*iam.UseServiceAccountExternalPermissions || in.Facts == nil || in.Facts.AWS == nil {
		return
	}
	if k := o["kind"]; k != "Deployment" && k != "DaemonSet" || field(o, "metadata")["namespace"] != "kube-system" {
		return
	}
	pod := field(o, "spec", "template", "spec")
	account, _ := pod["serviceAccountName"].(string)
	if !slices.Contains(withRole(), account) {
		return
	}
	const volume, mount = "token-amazonaws-com", "/var/run/secrets/amazonaws.com/"
	arn := fmt.Sprintf("arn:%s:iam::%s:role/%s", in.Facts.AWS.Partition, in.Facts.AWS.AccountID, names.AWSAccountRole(account, "kube-system", in.Cluster.Name))
	for _, c := range list(pod["containers"]) {
		container, ok := c.(map[string]any)
		if !ok {
			continue
		}
		container["env"] = append(list(container["env"]), map[string]any{"name": "AWS_ROLE_ARN", "value": arn},
			map[string]any{"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": mount + "token"})
		container["volumeMounts"] = append(list(container["volumeMounts"]), map[string]any{"name": volume, "mountPath": mount, "readOnly": true})
	}
	pod["volumes"] = append(list(pod["volumes"]), map[string]any{"name": volume, "projected": map[string]any{
		"defaultMode": 0o644,
		"sources": []any{map[string]any{"serviceAccountToken": map[string]any{
			"audience": "amazonaws.com", "expirationSeconds": 86400, "path": "token"}}},
	}})
	if security := field(pod, "securityContext"); security["fsGroup"] == nil {
		security["fsGroup"] = 10001
	}
}

func list(v any) []any { l, _ := v.([]any); return l }

// accountRole is what the pod identity webhook's configuration says of one service account.
type accountRole struct {
	RoleARN         string `json:"RoleARN"`
	Audience        string `json:"Audience"`
	UseRegionalSTS  bool   `json:"UseRegionalSTS"`
	TokenExpiration int    `json:"TokenExpiration"`
}

// AccountRoles gives the roles of the user's service accounts, by namespace/name,
// as JSON. Accounts of whole groups of namespaces cannot be named here.
func (v *View) AccountRoles() (string, error) {
	out := map[string]accountRole{}
	if iam, f := v.Spec.IAM, v.in.Facts; iam != nil && f != nil && f.AWS != nil {
		for _, p := range iam.ServiceAccountExternalPermissions {
			if p.AWS == nil || strings.ContainsAny(p.Namespace, "*?") {
				continue
			}
			arn := fmt.Sprintf("arn:%s:iam::%s:role/%s", f.AWS.Partition, f.AWS.AccountID, names.AWSAccountRole(p.Name, p.Namespace, v.Name))
			out[p.Namespace+"/"+p.Name] = accountRole{RoleARN: arn, Audience: "amazonaws.com", UseRegionalSTS: true, TokenExpiration: 86400}
		}
	}
	text, err := json.Marshal(out)
	return string(text), err
}
