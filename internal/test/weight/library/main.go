// Command library is a program that uses kops with only the in-memory platform. It is
// built to measure the size of the library.
package main

import (
	"context"
	"fmt"

	"kops.local/kops"
	"kops.local/kops/fakecloud"
)

func main() {
	ctx := context.Background()
	client, err := kops.New(ctx, kops.Config{Clouds: []kops.Provider{fakecloud.New().Provider()}})
	if err == nil {
		_, err = client.Update(ctx, "a.example.com", kops.UpdateOptions{})
	}
	fmt.Println(err)
}
