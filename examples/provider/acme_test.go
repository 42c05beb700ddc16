package acme

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"strings"
	"time"

	"kops.local/kops"
	"kops.local/kops/api/create"
)

// Create a cluster on the platform, change it, and delete it.
func Example() {
	ctx, cloud := context.Background(), &Cloud{}
	client, err := kops.New(ctx, kops.Config{
		Store:  kops.Store{URL: "memory://state", Backends: []kops.Backend{kops.Memories()}},
		Clouds: []kops.Provider{cloud.Platform()}, Version: "1.37.0", World: kops.World{Now: time.Now, Random: rand.Reader},
	})
	if err != nil {
		log.Fatal(err)
	}
	described, err := client.NewCluster(ctx, kops.NewClusterRequest{Options: create.Options{ClusterName: "demo.example.com", Zones: []string{"here"}, CloudProvider: "acme"}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Clusters().Create(ctx, described.Objects()); err != nil {
		log.Fatal(err)
	}
	made, err := client.Update(ctx, "demo.example.com", kops.UpdateOptions{Apply: true})
	if err != nil {
		log.Fatal(err)
	}
	show("made", made.Plan)
	fmt.Println("rented:", len(cloud.rented))

	c, err := client.Clusters().Get(ctx, "demo.example.com")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Clusters().SetFields(ctx, c, c.Group("nodes-here"), []string{"spec.minSize=3", "spec.maxSize=3"}, nil); err != nil {
		log.Fatal(err)
	}
	changed, err := client.Update(ctx, "demo.example.com", kops.UpdateOptions{Apply: true})
	if err != nil {
		log.Fatal(err)
	}
	show("changed", changed.Plan)

	if err := client.DeleteCluster(ctx, "demo.example.com", kops.DeleteOptions{Apply: true}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("rented:", len(cloud.rented))
	// Output:
	// made acme_name/demo.example.com
	// made acme_fleet/control-plane-here.demo.example.com
	// made acme_fleet/nodes-here.demo.example.com
	// rented: 2
	// changed acme_fleet/nodes-here.demo.example.com: Size 1 -> 3
	// rented: 0
}

func show(what string, p *kops.Plan) {
	for _, s := range p.Steps {
		if s.Op == kops.OpKeep || !strings.HasPrefix(s.Kind, "acme_") {
			continue
		}
		fmt.Printf("%s %s/%s", what, s.Kind, s.Name)
		for _, c := range s.Changes {
			fmt.Printf(": %s %s -> %s", c.Path, c.Have, c.Want)
		}
		fmt.Println()
	}
}
