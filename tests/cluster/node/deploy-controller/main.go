// Command deploy-controller runs the deploy controller on one folder against the API server of a kubeconfig.
//
//	deploy-controller KUBECONFIG FOLDER [PASSES]
//
// With PASSES, a file with a number, it begins no more passes than that; whoever wants one more writes the next number.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"windrow.dev/tests/cluster/node/deploy"
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if len(os.Args) < 3 || len(os.Args) > 4 {
		log.Fatal("usage: deploy-controller KUBECONFIG FOLDER [PASSES]")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, folder string, passes []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// The tests put many files into one folder; the pace of the client is none of the behaviour they look at.
	config.QPS, config.Burst = 200, 400
	if err := deploy.RegisterCRDs(ctx, config); err != nil {
		return err
	}
	controller, err := deploy.New(ctx, config, folder)
	if err != nil {
		return err
	}
	for _, path := range passes {
		controller.Admitted = func() int { return number(path) }
	}
	log.Printf("deploying %s", folder)
	controller.Run(ctx)
	return nil
}

// number is what a file says; 0 until it is there.
func number(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return number
}
