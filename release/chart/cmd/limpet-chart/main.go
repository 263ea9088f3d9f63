// Command limpet-chart writes the Helm chart of Limpet.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/limpet-io/limpet/release/chart"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "limpet-chart:", err)
		os.Exit(1)
	}
}

func run() error {
	var r chart.Release
	deploy := flag.String("deploy", "deploy", "`directory` of the manifests")
	dir := flag.String("dir", "", "write the chart into this `directory`, which is emptied first")
	archive := flag.String("archive", "", "write the chart as limpet-VERSION.tgz into this `directory`")
	flag.StringVar(&r.Version, "version", "dev", "`version` of the release")
	flag.StringVar(&r.Registry, "registry", "limpet-io", "`registry` and directory of the images")
	flag.StringVar(&r.Tag, "tag", "dev", "`tag` of the images")
	flag.Parse()
	files, err := chart.Files(*deploy, r)
	if err != nil {
		return err
	}
	if *dir != "" {
		if err := chart.Write(*dir, files); err != nil {
			return err
		}
	}
	if *archive != "" {
		return chart.Pack(filepath.Join(*archive, chart.Name+"-"+r.ChartVersion()+".tgz"), files)
	}
	return nil
}
