//! Names, hyperparameters, groups, settings, errors.

use talus::{
    build_info, doc, feature, hypers, names, version, Clock, ErrorKind, Group, HyperKind,
    Optimizer, Result,
};

#[test]
fn all_that_is_listed_is_described() -> Result<()> {
    let algorithms = names("algorithms")?;
    assert!(algorithms.contains(&"adamw".to_string()), "{algorithms:?}");
    for owner in algorithms.iter().chain(&names("aliases")?) {
        for hyper in hypers(owner)? {
            assert!(!hyper.doc.is_empty() && hyper.min <= hyper.max, "{owner} {hyper:?}");
            let opt = Optimizer::new(owner)?;
            let value = opt.get(Group(0), &hyper.name)?;
            assert!(value == hyper.default || hyper.default.is_nan(), "{owner} {hyper:?} {value}");
        }
    }
    for setting in hypers("settings")? {
        assert_eq!(Optimizer::new("sgd")?.setting(&setting.name)?, setting.default, "{setting:?}");
    }
    let nesterov = hypers("sgd")?.into_iter().find(|hyper| hyper.name == "nesterov").unwrap();
    assert_eq!(nesterov.kind, HyperKind::Flag);
    assert!(doc("algorithms", "adamw")?.len() > 10);
    assert!(!build_info().is_empty() && version() >= 0x000100);
    Ok(())
}

#[test]
fn what_has_no_name_is_refused_by_name() {
    let kind = |error: talus::Error| error.kind();
    assert_eq!(names("no such").map_err(kind), Err(ErrorKind::Name));
    assert_eq!(doc("algorithms", "no such").map_err(kind), Err(ErrorKind::Name));
    assert_eq!(doc("no such", "adamw").map_err(kind), Err(ErrorKind::Name));
    assert_eq!(hypers("no such").map_err(kind), Err(ErrorKind::Name));
    assert_eq!(names("NUL\0").map_err(kind), Err(ErrorKind::Argument));
    let why = feature("no such").unwrap_err();
    assert!(why.message().contains("no such"), "{why}");
    assert!(feature("cpu").is_ok());
    let error = Optimizer::new("adamv").unwrap_err();
    assert!(error.kind() == ErrorKind::Name && error.message().contains("adamw"), "{error}");
}

#[test]
fn an_error_has_name_number_and_text() {
    let error = Optimizer::builder("sgd").set("lr", -1.0).build().unwrap_err();
    assert_eq!((error.kind(), error.code(), error.detail()), (ErrorKind::Range, 3, 0));
    assert_eq!(error.name(), "TALUS_E_RANGE");
    assert!(error.message().contains("lr") && error.message().contains("-1"), "{error}");
    assert_eq!(error.to_string(), format!("TALUS_E_RANGE: {}", error.message()));
    assert_eq!(talus::Error::from_callback(7, "why").kind(), ErrorKind::Callback);
}

#[test]
fn the_builder_refuses_names_with_the_list() {
    let error = Optimizer::builder("adamw").set("betas", 0.9).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Name);
    assert!(error.message().contains("betas") && error.message().contains("beta1"), "{error}");
    let error = Optimizer::builder("adamw").setting("treads", 1.0).build().unwrap_err();
    assert!(error.message().contains("treads") && error.message().contains("threads"), "{error}");
}

#[test]
fn groups_have_values_of_their_own() -> Result<()> {
    let mut opt = Optimizer::builder("adamw").set("lr", 0.5).setting("threads", 2.0).build()?;
    let other = opt.add_group(Some("sgd"), &[("momentum", 0.9)])?;
    let alike = opt.add_group(None, &[])?;
    assert_eq!((other, alike, opt.group_count()), (Group(1), Group(2), 3));
    assert_eq!(opt.group_algorithm(other)?, "sgd");
    assert_eq!(opt.group_algorithm(alike)?, "adamw");
    assert_eq!((opt.get(other, "lr")?, opt.get(other, "momentum")?), (0.5, 0.9));
    opt.set(Group::ALL, "lr", 0.25)?;
    opt.set(other, "lr", 0.125)?;
    assert_eq!((opt.get(Group(0), "lr")?, opt.get(other, "lr")?), (0.25, 0.125));
    assert_eq!(opt.setting("threads")?, 2.0);
    assert!(opt.get(Group(3), "lr").is_err() && opt.group_algorithm(Group(3)).is_err());
    Ok(())
}

#[test]
fn a_group_that_is_refused_is_not_there() -> Result<()> {
    let mut opt = Optimizer::new("adamw")?;
    let error = opt.add_group(None, &[("lr", 0.1), ("beta1", 2.0)]).unwrap_err();
    assert_eq!((error.kind(), opt.group_count()), (ErrorKind::Range, 1));
    let error = opt.add_group(Some("sgd"), &[("beta1", 0.9)]).unwrap_err();
    assert_eq!((error.kind(), opt.group_count()), (ErrorKind::Name, 1));
    Ok(())
}

#[test]
fn the_manual_clock_is_the_hosts() -> Result<()> {
    let mut opt = Optimizer::new("sgd")?;
    opt.set_clock(7)?;
    assert_eq!((opt.clock(Clock::Manual)?, opt.clock(Clock::Applied)?), (7, 0));
    assert_eq!(opt.set_clock(-1).unwrap_err().kind(), ErrorKind::Range);
    assert!(format!("{opt:?}").contains("sgd"));
    Ok(())
}
