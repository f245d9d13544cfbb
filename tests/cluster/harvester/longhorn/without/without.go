// Package without has the constants that Longhorn's webhook takes from packages that cannot be built here: longhorn-manager's engineapi
// and manager, and backing-image-manager's pkg/types.
package without

// Of engineapi.
const (
	CLIVersionFour = 4
	CLIVersionFive = 5
)

// Of manager.
const (
	DataSourceTypeExportFromVolumeParameterExportType      = "export-type"
	DataSourceTypeExportFromVolumeParameterExportTypeRAW   = "raw"
	DataSourceTypeExportFromVolumeParameterExportTypeQCOW2 = "qcow2"
)

// EncryptionType is of backing-image-manager.
type EncryptionType string

// Its values.
const (
	EncryptionTypeEncrypt = EncryptionType("encrypt")
	EncryptionTypeDecrypt = EncryptionType("decrypt")
	EncryptionTypeIgnore  = EncryptionType("ignore")
)
