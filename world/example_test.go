package world_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"kops.local/kops"
	"kops.local/kops/world"
)

// Print the number of steps that an update of a real cluster would take.
func Example() {
	ctx := context.Background()
	client, err := kops.New(ctx, world.Config("s3://my-state-store", world.Options{Env: os.Getenv, Version: "1.37.0"}))
	if err != nil {
		log.Fatal(err)
	}
	preview, err := client.Update(ctx, "cluster.example.com", kops.UpdateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(preview.Plan.Steps), "steps")
}
