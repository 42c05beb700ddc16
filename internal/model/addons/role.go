package addons

import "kops.local/kops/internal/spec/catalogue"

// mountRole lets the pods of an object use the role of their service account, if the cluster has
// such roles.
func (in Input) mountRole(v *catalogue.View, o map[string]any) error {
	iam, mount := in.Cluster.Spec.IAM, in.Traits.Model.MountRole
	if mount == nil || iam == nil || iam.UseServiceAccountExternalPermissions == nil || !*iam.UseServiceAccountExternalPermissions {
		return nil
	}
	if k := o["kind"]; k != "Deployment" && k != "DaemonSet" || field(o, "metadata")["namespace"] != "kube-system" {
		return nil
	}
	pod := field(o, "spec", "template", "spec")
	account, _ := pod["serviceAccountName"].(string)
	if on, err := in.Addons.ActsAs(v, account); err != nil || !on {
		return err
	}
	return mount(in.Cluster, in.Facts.Of(string(in.Traits.Name)), account, pod)
}
