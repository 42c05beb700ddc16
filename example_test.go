package kops_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"kops.local/kops"
	"kops.local/kops/fakecloud"
)

// A cluster is described, previewed, and applied: on a platform in memory, with a state
// store in memory. For a real one, only Store and Clouds differ.
func Example() {
	ctx := context.Background()
	world := fakecloud.New()
	client, err := kops.New(ctx, kops.Config{
		Store:   kops.Store{URL: "memory://state", Backends: []kops.Backend{kops.Memories()}},
		Clouds:  []kops.Provider{world.Provider()},
		World:   kops.World{Now: time.Now, Random: rand.Reader},
		Version: "1.37.0",
	})
	if err != nil {
		log.Fatal(err)
	}

	// Options that are not set are inferred. Nothing is stored before Create.
	described, err := client.NewCluster(ctx, kops.NewClusterRequest{Options: kops.NewClusterOptions{
		ClusterName: "demo.example.com", CloudProvider: fakecloud.Name, Zones: []string{"here"}, NodeCount: 3,
	}})
	if err != nil {
		log.Fatal(err)
	}
	stored, err := client.Clusters().Create(ctx, described.Objects())
	if err != nil {
		log.Fatal(err)
	}
	var names []string
	for _, o := range stored {
		names = append(names, o.Name)
	}
	fmt.Println("stored:", strings.Join(names, ", "))

	// A preview makes the plan and does nothing. Besides the machines it contains keys
	// and files of the state store, which are omitted here.
	preview, err := client.Update(ctx, "demo.example.com", kops.UpdateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	show(preview.Plan)
	fmt.Println("exist:", len(world.Objects()))

	// An update applies it; a second one has nothing to do.
	if _, err := client.Update(ctx, "demo.example.com", kops.UpdateOptions{Apply: true}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("exist:", len(world.Objects()))
	again, err := client.Update(ctx, "demo.example.com", kops.UpdateOptions{Apply: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Summary())

	// A change of a field results in a small plan.
	c, err := client.Clusters().Get(ctx, "demo.example.com")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Clusters().SetFields(ctx, c, c.Group("nodes-here"), []string{"spec.minSize=4", "spec.maxSize=4"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	changed, err := client.Update(ctx, "demo.example.com", kops.UpdateOptions{Apply: true})
	if err != nil {
		log.Fatal(err)
	}
	show(changed.Plan)

	// Output:
	// stored: cluster/demo.example.com, instancegroup/control-plane-here, instancegroup/nodes-here
	// create fake_network/demo.example.com
	// create fake_balancer/api.demo.example.com
	// create fake_machines/control-plane-here.demo.example.com
	// create fake_machines/nodes-here.demo.example.com
	// exist: 0
	// exist: 4
	// No changes need to be applied
	// modify fake_machines/nodes-here.demo.example.com: Count 3 -> 4
}

// show prints the steps of a plan that change the platform.
func show(p *kops.Plan) {
	for _, s := range p.Steps {
		if s.Op == kops.OpKeep || !strings.HasPrefix(s.Kind, "fake_") {
			continue
		}
		fmt.Printf("%s %s/%s", s.Op, s.Kind, s.Name)
		for _, c := range s.Changes {
			fmt.Printf(": %s %s -> %s", c.Path, c.Have, c.Want)
		}
		fmt.Println()
	}
}

// Each call has its own events, so that one client serves many clusters concurrently: here
// two are planned, and the output of each is kept separate.
func ExampleOn() {
	ctx := context.Background()
	client, err := kops.New(ctx, kops.Config{
		Store:   kops.Store{URL: "memory://state", Backends: []kops.Backend{kops.Memories()}},
		Clouds:  []kops.Provider{fakecloud.New().Provider()},
		World:   kops.World{Now: time.Now, Random: rand.Reader},
		Version: "1.37.0",
	})
	if err != nil {
		log.Fatal(err)
	}
	clusters := []string{"a.example.com", "b.example.com"}
	said := make([][]string, len(clusters))
	var calls sync.WaitGroup
	for i, name := range clusters {
		described, err := client.NewCluster(ctx, kops.NewClusterRequest{Options: kops.NewClusterOptions{
			ClusterName: name, CloudProvider: fakecloud.Name, Zones: []string{"here"},
		}})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := client.Clusters().Create(ctx, described.Objects()); err != nil {
			log.Fatal(err)
		}
		calls.Go(func() {
			_, err := client.Update(ctx, name, kops.UpdateOptions{On: func(e kops.Event) error {
				switch e.Kind {
				case kops.EventPhase:
					said[i] = append(said[i], e.Phase)
				case kops.EventPlan:
					said[i] = append(said[i], "planned for "+e.Cluster)
				}
				return nil
			}})
			if err != nil {
				log.Print(err)
			}
		})
	}
	calls.Wait()
	for _, s := range said {
		fmt.Println(strings.Join(s, ", "))
	}
	// Output:
	// read, look up, model, observe, , planned for a.example.com
	// read, look up, model, observe, , planned for b.example.com
}
