package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// identity is one certificate with its key, as files.
type identity struct{ cert, key string }

// pki holds the certificates of the node below server/tls. They outlive a restart, as RKE2's do.
type pki struct {
	dir string
	ca  string

	server, admin, node, serviceAccount identity
}

// openPKI reads what an earlier start left, or makes it. The file that is written last tells that all is there.
func openPKI(dir, host string) (*pki, error) {
	p := &pki{dir: dir, ca: filepath.Join(dir, "server-ca.crt")}
	at := func(name string) identity {
		return identity{filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")}
	}
	p.server, p.admin, p.node, p.serviceAccount = at("serving-kube-apiserver"), at("client-admin"), at("client-kubelet"), at("service")
	if _, err := os.Stat(p.ca); err == nil {
		return p, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := template(pkix.Name{CommonName: "rke2-server-ca"})
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	signed := func(to identity, name pkix.Name, usage x509.ExtKeyUsage) error {
		cert := template(name)
		cert.KeyUsage, cert.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{usage}
		cert.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", host}
		cert.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 43, 0, 1)}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		return write(to, cert, ca, key, caKey)
	}
	if err := signed(p.server, pkix.Name{CommonName: "kube-apiserver"}, x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if err := signed(p.admin, pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	if err := signed(p.node, pkix.Name{CommonName: "system:node:" + host, Organization: []string{"system:nodes"}}, x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	if err := signed(p.serviceAccount, pkix.Name{CommonName: "service-account"}, x509.ExtKeyUsageClientAuth); err != nil {
		return nil, err
	}
	return p, write(identity{p.ca, filepath.Join(dir, "server-ca.key")}, ca, ca, caKey, caKey)
}

func template(name pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		serial = big.NewInt(time.Now().UnixNano())
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func write(to identity, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(to.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// kubeconfig writes one for an identity, readable to root only, with everything inside.
func (p *pki) kubeconfig(path, server string, who identity) error {
	var inside [3]string
	for i, file := range []string{p.ca, who.cert, who.key} {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		inside[i] = encode(content)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: %s
    server: %s
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
users:
- name: default
  user:
    client-certificate-data: %s
    client-key-data: %s
`, inside[0], server, inside[1], inside[2]), 0o600)
}
