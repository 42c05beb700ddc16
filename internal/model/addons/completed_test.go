package addons_test

import (
	"testing"

	"kops.local/kops/api"
	"kops.local/kops/internal/model/addons"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/test/platformtest"
	"kops.local/kops/internal/test/spectest"
)

// completed returns what the add-ons of a cluster are built from.
func completed(t *testing.T, cluster *api.Cluster, groups []*api.InstanceGroup) (addons.Input, error) {
	t.Helper()
	on := platformtest.Of(cluster)
	in := complete.Input{Cluster: cluster, Groups: groups, Platform: on.ForComplete(), Facts: spectest.Facts(t, "../../spec/complete/testdata"), Channel: spectest.Stable(t), KopsVersion: "1.37.0"}
	done, findings := complete.Complete(in)
	if err := findings.Err(); err != nil {
		return addons.Input{}, err
	}
	region := in.Facts.Of(string(on.Traits.Name)).Region
	return addons.Input{Traits: &on.Traits, Cluster: done.Spec, Groups: done.Groups, Version: in.KopsVersion, Region: region, Facts: in.Facts}, nil
}

// changed is completed for a cluster in a file, with changes.
func changed(t *testing.T, file []byte, change func(*api.ClusterSpec)) addons.Input {
	t.Helper()
	cluster, groups := spectest.Read(t, file)
	change(&cluster.Spec)
	in, err := completed(t, cluster, groups)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
