package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// options configure a controller.
type options struct {
	Namespace         string
	Service           string
	ConversionService string
	DNSNames          []string
	Secret            string
	CertDir           string
	Certificate       string
	WebhookPort       int
	MetricsAddress    string
	HealthAddress     string
	ClientCA          string
	ClientNames       []string
	ClientNetworks    []string
	LeaderElect       bool
	KeepNodes         bool
	MaxReservation    time.Duration
	NodeEnders        []string
	ClusterName       string
	PeersKubeconfig   string
	Host              string // the name of this replica's machine, which is that of its pod; no flag
}

// Values of Options.Certificate.
const (
	certificateSelf  = "self"  // the controller makes and renews the certificate
	certificateGiven = "given" // the certificate comes from files that another program writes
)

// Default returns the default options.
func Default() options {
	return options{
		Namespace:         "limpet-system",
		Service:           "limpet-controller",
		ConversionService: "limpet-controller-conversion",
		Secret:            "limpet-controller-certificate",
		CertDir:           "/etc/limpet/certificate",
		Certificate:       certificateSelf,
		WebhookPort:       9443,
		MetricsAddress:    ":8080",
		HealthAddress:     ":8081",
		LeaderElect:       true,
		MaxReservation:    reservation.DefaultMaxRetain,
		PeersKubeconfig:   "/etc/limpet/peers/kubeconfig",
		NodeEnders:        []string{"system:serviceaccount:kube-system:karpenter", "system:serviceaccount:karpenter:karpenter"},
	}
}

// addFlags adds a flag for each option.
func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace in which the controller runs")
	fs.StringVar(&o.Service, "service", o.Service, "service through which the API server reaches the webhooks")
	fs.StringVar(&o.ConversionService, "conversion-service", o.ConversionService, "service through which the API server converts objects")
	fs.StringSliceVar(&o.DNSNames, "dns-names", o.DNSNames, "further DNS names in the certificate of the webhook server; needed where the webhook configuration names a URL instead of a service")
	fs.StringVar(&o.Secret, "secret", o.Secret, "secret that holds the webhook certificate; it must exist, and may be empty")
	fs.StringVar(&o.CertDir, "cert-dir", o.CertDir, "directory where the secret of --secret is mounted")
	fs.StringVar(&o.Certificate, "certificate", o.Certificate, "self: make the webhook certificate and write its authority into webhook configurations and CRDs; given: read tls.crt and tls.key from --cert-dir, and write none of these objects")
	fs.IntVar(&o.WebhookPort, "webhook-port", o.WebhookPort, "port of the webhooks")
	fs.StringVar(&o.ClientCA, "client-ca", o.ClientCA, "file with the authority of the API server's client certificate; the webhooks for admission then refuse clients without one; empty: --client-networks alone says who is answered")
	fs.StringSliceVar(&o.ClientNames, "client-name", o.ClientNames, "common name or DNS name in that certificate; may be repeated; none: every certificate of the authority is accepted")
	fs.StringSliceVar(&o.ClientNetworks, "client-networks", o.ClientNetworks, "networks, such as 10.0.0.0/24, from which the webhooks may be asked, beside loopback; 0.0.0.0/0,::/0: all; none: all but pods; pods of kube-system, the first two addresses of a pod CIDR and API servers may, and with --client-ca all")
	fs.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "address of /metrics; 0 for none")
	fs.StringVar(&o.HealthAddress, "health-address", o.HealthAddress, "address of /healthz and /readyz; 0 for none")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "let one replica at a time run the reconcilers")
	fs.BoolVar(&o.KeepNodes, "keep-nodes", o.KeepNodes, "keep cluster-autoscaler and Karpenter from removing nodes that hold reservations, by annotations; deploy/keep-nodes grants the right")
	fs.StringSliceVar(&o.NodeEnders, "node-enders", o.NodeEnders, "users that delete the pods of a node at the node's deadline; while the Node is being deleted, budgets allow that and account for it")
	fs.StringVar(&o.ClusterName, "cluster-name", o.ClusterName, "name by which budgets of other clusters name this one; empty: budgets have peers in this cluster alone")
	fs.StringVar(&o.PeersKubeconfig, "peers-kubeconfig", o.PeersKubeconfig, "file with a context for each other cluster, under the name of that cluster; it is read again when it changes")
	fs.DurationVar(&o.MaxReservation, "max-reservation", o.MaxReservation,
		"longest time that a pod may keep its addresses reserved; the same as ipam.maxReservation in the network configuration")
	// The manifests and their policies fix these: they are accepted, and no user has to learn them.
	for _, name := range []string{"namespace", "service", "conversion-service", "dns-names", "secret", "cert-dir", "leader-elect", "peers-kubeconfig"} {
		_ = fs.MarkHidden(name) // it is defined above
	}
}

// validate names every invalid option.
func (o *options) validate() error {
	var errs []error
	for name, value := range map[string]string{
		"namespace": o.Namespace, "service": o.Service, "conversion-service": o.ConversionService, "secret": o.Secret, "cert-dir": o.CertDir,
	} {
		if value == "" {
			errs = append(errs, fmt.Errorf("--%s: must not be empty", name))
		}
	}
	if o.Certificate != certificateSelf && o.Certificate != certificateGiven {
		errs = append(errs, fmt.Errorf("--certificate: %q is neither %q nor %q", o.Certificate, certificateSelf, certificateGiven))
	}
	if o.WebhookPort < 1 || o.WebhookPort > 65535 {
		errs = append(errs, fmt.Errorf("--webhook-port: %d is not a port", o.WebhookPort))
	}
	if o.ClientCA == "" && len(o.ClientNames) > 0 {
		errs = append(errs, errors.New("--client-name: needs --client-ca"))
	}
	if _, err := o.networks(); err != nil {
		errs = append(errs, err)
	}
	if o.MaxReservation < time.Minute {
		errs = append(errs, fmt.Errorf("--max-reservation: %s is less than a minute", o.MaxReservation))
	}
	return errors.Join(errs...)
}

// networks parses --client-networks.
func (o *options) networks() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range o.ClientNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--client-networks: %w", err)
		}
		out = append(out, network.Masked())
	}
	return out, nil
}

// refusesPods reports whether the addresses of pods may not ask the webhooks: where no option says who may.
func (o *options) refusesPods() bool { return o.ClientCA == "" && len(o.ClientNetworks) == 0 }

// kindsIn returns the namespaces of the ConfigMaps that name further kinds of workload:
// our own namespace, and that of OpenKruise, which counts while OpenKruise is installed.
func (o *options) kindsIn() []string { return []string{o.Namespace, "kruise-system"} }
