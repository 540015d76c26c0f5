// One program that is etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler or kubectl.
//
// The part it plays is the name it was called by (a link beside it), or else
// its first argument. One program means one link step and one file in the
// cache instead of five.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
)

func main() {
	part := filepath.Base(os.Args[0])
	if !known(part) {
		if len(os.Args) < 2 || !known(os.Args[1]) {
			fmt.Fprintf(os.Stderr, "usage: %s {%s} [flags]\n", part, strings.Join(parts, "|"))
			os.Exit(2)
		}
		part = os.Args[1]
		os.Args = append([]string{part}, os.Args[2:]...)
	}
	os.Exit(run(part))
}

var parts = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}

func known(part string) bool {
	for _, p := range parts {
		if p == part {
			return true
		}
	}
	return false
}

func run(part string) int {
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kube-apiserver":
		return cli.Run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		return cli.Run(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		return cli.Run(scheduler.NewSchedulerCommand())
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			util.CheckErr(err)
		}
		return 0
	}
	return 2
}
