package kinds

import (
	"testing"

	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsname"
	"kops.local/kops/internal/platform/aws/awstest"
	"kops.local/kops/internal/test/kindtest"
)

func testStoreKeys() StoreKeys {
	return StoreKeys{Name: awsname.StoreKeys(testCluster), Keys: resource.SecretText(storekeys.Pair{ID: "id", Secret: "secret"}.Encode())}
}

func liveStoreKeys(t *testing.T, c *Client) {
	kindtest.Run(t, &StoreKeySets, c, kindtest.Life[StoreKeys]{
		Cluster: testCluster,
		Want:    testStoreKeys(),
		Changes: []kindtest.Change[StoreKeys]{
			{Name: "other keys", Do: func(k *StoreKeys) { k.Keys = resource.SecretText(storekeys.Pair{ID: "id", Secret: "other"}.Encode()) }},
		},
	})
}

// A cluster that needs no keys does not request them, because it may not be permitted to.
func TestNobodyAsksForKeysThatAreNotWanted(t *testing.T) {
	c := connect(t, awstest.Moto(t))
	if err := StoreKeySets.Create(t.Context(), c, new(testStoreKeys())); err != nil {
		t.Fatal(err)
	}
	list, err := StoreKeySets.List(t.Context(), c, resource.Scope{Cluster: testCluster})
	if err != nil || len(list) != 0 {
		t.Errorf("listed are %v, %v", list, err)
	}
	if list, err = StoreKeySets.List(t.Context(), c, resource.Scope{Cluster: "x." + testCluster, All: true}); err != nil || len(list) != 0 {
		t.Errorf("of another cluster are listed %v, %v", list, err)
	}
}
